"""Chip page."""

from trn2model.ui import shell, view
from trn2model.ui.present import chip

view.page(shell.enter(), "Chip", chip.content)
