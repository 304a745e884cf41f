"""Training page."""

from trn2model.ui import shell, view
from trn2model.ui.present import training

view.page(shell.enter(), "Training", training.content)
