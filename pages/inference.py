"""Inference page."""

from trn2model.ui import queue, serving_controls, shell, view
from trn2model.ui.present import inference

scene = shell.enter("serve")
view.page(scene, "Inference", inference.content, serving_controls.limits, verdict_first=True)
queue.section(scene)
