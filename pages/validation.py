"""Validation page."""

from trn2model.ui import app, controls, page
from trn2model.ui.pages import validation

page.page(app.enter(None), "Validation", validation.content, controls.choose, verdict_first=True)
