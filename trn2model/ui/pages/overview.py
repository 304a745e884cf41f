"""Overview page: verdict, headline numbers, presets, and the two charts that say why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trn2model.model.training.step import TrainingEstimate
from trn2model.specs.link import query_string
from trn2model.specs.scenario import Scenario
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Content, Links, Remarks
from trn2model.ui.pages.evidence import profile_links
from trn2model.ui.pages.steps import training_verdict
from trn2model.ui.pages.training import memory_bar, metrics, step_time_bar
from trn2model.ui.pages.words import configuration


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
