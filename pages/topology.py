"""Topology page."""

from trn2model.ui import controls, shell, view
from trn2model.ui.present import topology

view.page(shell.enter(), "Topology", topology.content, controls.topology_view)
