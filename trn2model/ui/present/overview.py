"""Overview page: verdict, headline numbers, presets, and the two charts that say why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trn2model.estimate.training.step import TrainingEstimate
from trn2model.specs.scenario import Scenario
from trn2model.ui.charts.template import Mode
from trn2model.ui.present.content import Content, Links, Remarks
from trn2model.ui.present.training import memory_bar, metrics, step_time_bar
from trn2model.ui.present.trust import profile_links
from trn2model.ui.present.verdict import training_verdict
from trn2model.ui.present.words import configuration
from trn2model.ui.url_codec import query_string


@dataclass(frozen=True, slots=True)
class Preset:
    """A scenario worth starting from."""

    title: str
    scenario: Scenario


PRESETS: Final = (
    Preset("Llama 3.1 8B on one instance", Scenario(model="llama-3.1-8b", system="trn2.48xlarge", tp=8)),
    Preset("Llama 3.1 70B on four instances", Scenario(system="trn2.48xlarge", count=4, sequence_length=8192)),
    Preset("Llama 3.1 405B on one UltraServer", Scenario(model="llama-3.1-405b", pp=8, optimizer="adamw-bf16-sr")),
    Preset(
        "1T MoE on four UltraServers",
        Scenario(model="moe-1t", count=4, tp=4, ep=16, pp=8, recompute="full", optimizer="adamw-bf16-sr"),
    ),
)


def preset_links() -> Links:
    """Presets as links to the page on show."""
    return Links("Start from", tuple((preset.title, query_string(preset.scenario)) for preset in PRESETS))


def content(estimate: TrainingEstimate, mode: Mode) -> Content:
    """Overview page of a single plan."""
    return Content(
        title="Overview",
        configuration=configuration(estimate.resolved),
        verdict=training_verdict(estimate),
        metrics=metrics(estimate),
        rows=(
            (preset_links(), profile_links(estimate)),
            (step_time_bar(estimate, mode), memory_bar(estimate, mode)),
            (Remarks("Assumptions behind these numbers", tuple(estimate.assumptions)),),
        ),
    )
