"""Training page."""

from trn2model.ui import app, page
from trn2model.ui.pages import training

page.page(app.enter(), "Training", training.content)
