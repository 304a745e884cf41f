"""Chip page."""

from trn2model.ui import app, page
from trn2model.ui.pages import chip

page.page(app.enter(), "Chip", chip.content)
