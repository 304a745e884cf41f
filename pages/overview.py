"""Overview page."""

from trn2model.ui import shell, view
from trn2model.ui.present import overview

view.page(shell.enter(), "Overview", overview.content)
