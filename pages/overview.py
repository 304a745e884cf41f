"""Overview page."""

from trn2model.ui import app, page
from trn2model.ui.pages import overview

page.page(app.enter(), "Overview", overview.content)
