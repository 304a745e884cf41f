"""Sources page."""

from trn2model.ui import app, controls, page
from trn2model.ui.pages import sources

page.page(app.enter(), "Sources", sources.content, controls.source_filter, always=True)
