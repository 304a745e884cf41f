"""Sources page."""

from trn2model.ui import controls, shell, view
from trn2model.ui.present import sources

view.page(shell.enter(), "Sources", sources.content, controls.source_filter, always=True)
