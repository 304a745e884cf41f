"""Topology page."""

from trn2model.ui import collective_view, controls, shell, view
from trn2model.ui.present import topology

view.page(shell.enter(), "Topology", topology.content, controls.topology_view, sections=collective_view.sections)
