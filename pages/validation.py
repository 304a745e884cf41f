"""Validation page."""

from trn2model.ui import shell, validation_controls, view
from trn2model.ui.present import validation

view.page(shell.enter(None), "Validation", validation.content, validation_controls.choose, verdict_first=True)
