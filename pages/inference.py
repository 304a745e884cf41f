"""Inference page."""

from trn2model.ui import app, controls, page
from trn2model.ui.pages import inference

scene = app.enter("serve")
page.page(scene, "Inference", inference.content, controls.limits, verdict_first=True)
controls.section(scene)
