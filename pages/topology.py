"""Topology page."""

from trn2model.ui import app, controls, page
from trn2model.ui.pages import topology

page.page(app.enter(), "Topology", topology.content, controls.topology_view, sections=controls.sections)
