"""Names and phrases that every page shares."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from trn2model.errors import InvalidInputError, Trn2ModelError
from trn2model.specs import catalog
from trn2model.specs.fields import ScenarioField
from trn2model.specs.model import ModelSpec
from trn2model.specs.resolve import Resolved
from trn2model.specs.scenario import FIELDS, Scenario
from trn2model.text import count
from trn2model.ui.charts.chart import Words, file_stem

AXIS_NAMES: Final = {
    "tp": "tensor parallel",
    "cp": "context parallel",
    "ep": "expert parallel",
    "dp": "data parallel",
    "pp": "pipeline parallel",
}
#: how a message prints a value without a visible character
EMPTY: Final = "(empty)"
_MS_BELOW: Final = 2.0
_HEADLINE: Final = ("model", "system", "count")
_UNPRINTABLE: Final = re.compile(r"[^\w .,:;=%+()×/-]")
#: beyond letters, digits and punctuation: addresses, names of icons, emphasis
_MARKUP: Final = re.compile(r"""[^\w .,:;=%+()×/'"–-]|//|www\.|(?<!\w):\w|(?<!\w)_|_(?!\w)""")
_BACKTICKS: Final = re.compile("`+")


def plain(text: str, length: int = 60) -> str:
    """Text from a link or a file with everything taken out that a page could read as markup.

    Examples
    --------
    >>> plain("<img src=x>")
    '·img src=x·'
    """
    cut = text if len(text) <= length else f"{text[:length]}…"
    return _UNPRINTABLE.sub("·", cut.replace("…", " "))


def code(text: str, length: int = 60) -> str:
    """Text from a link or a file as it is, in a Markdown code span, where nothing in it is read as markup.

    Examples
    --------
    >>> code("[[["), code(" ")
    ('`[[[`', '(empty)')
    """
    line = " ".join(text[: 4 * length].split())
    seen = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if not seen:
        return EMPTY
    cut = seen if len(seen) <= length else f"{seen[:length]}…"
    fence = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(cut)), default=0))
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{cut}{space}{fence}"


def legible(text: str, length: int = 60) -> str:
    """Text as prose where it holds letters, digits and harmless punctuation only, else as a code span.

    Examples
    --------
    >>> legible("a number from 0 to 1"), legible("<b>")
    ('a number from 0 to 1', '`<b>`')
    """
    short = len(text) <= length and text.strip()
    return text if short and not _MARKUP.search(text) else code(text, length)


def model_title(model: str | ModelSpec) -> str:
    """Name of a model as people write it."""
    spec = catalog.model(model) if isinstance(model, str) else model
    return plain(spec.title or spec.name)


def linkable(scenario: Scenario) -> Scenario:
    """Scenario as a link can carry it: a model of one's own gives way to the default model."""
    return replace(scenario, model=Scenario().model) if isinstance(scenario.model, ModelSpec) else scenario


def machine(scenario: Scenario) -> str:
    """Machines of a scenario in words."""
    return f"{scenario.count} × {scenario.system}"


def changed_fields(scenario: Scenario) -> tuple[ScenarioField, ...]:
    """Fields that differ from their default, apart from model, system and count."""
    return tuple(row for row in FIELDS if row.name not in _HEADLINE and getattr(scenario, row.name) != row.default)


def subtitle(scenario: Scenario) -> str:
    """Model, machines, and every parameter that is not at its default."""
    changes = (changed_text(scenario, row) for row in changed_fields(scenario))
    return " · ".join((model_title(scenario.model), machine(scenario), *changes))


def chart_words(resolved: Resolved, title: str, stem: str, alt: str, *, detail: str = "") -> Words:
    """Words of a chart about one scenario."""
    scenario = resolved.scenario
    name = file_stem("trn2model", stem, model_title(scenario.model), f"{scenario.count}x{scenario.system}")
    return Words(title, " · ".join(part for part in (detail, subtitle(scenario)) if part), alt, name)


def configuration(resolved: Resolved) -> str:
    """What was estimated, with automatic degrees decided."""
    scenario, plan = resolved.scenario, resolved.plan
    chips = resolved.system.num_chips * scenario.count
    return " · ".join(
        (
            model_title(scenario.model),
            f"{machine(scenario)} ({count(chips)} {'chip' if chips == 1 else 'chips'})",
            *parallel_words(resolved),
            f"sequence {count(float(plan.sequence_length))}",
            f"batch {count(float(plan.global_batch_size))}",
            f"profile {resolved.profile.name}",
        )
    )


def parallel_words(resolved: Resolved) -> tuple[str, str]:
    """Degrees of the parallel axes that split something, and the format that weights are multiplied in."""
    scenario = resolved.scenario
    degrees = [(axis, float(getattr(resolved.plan, axis))) for axis in AXIS_NAMES]
    shown = [f"{axis} {count(size)}" for axis, size in degrees if size > 1] or ["one rank"]
    sparse = "dense" if scenario.sparsity == "dense" else f"sparse {scenario.sparsity}"
    return " ".join(shown), f"{scenario.precision} {sparse}"


def time_unit(longest: float) -> str:
    """Unit of a time axis, from the longest time on it [s]."""
    return "ms" if longest < _MS_BELOW else "s"


def complaint(error: Trn2ModelError) -> str:
    """One clear message for a scenario that means nothing or that the hardware cannot run."""
    if not isinstance(error, InvalidInputError):
        return legible(str(error), 400)
    named = f"{_label(error.field)} = {legible(str(error.value))}"
    return (
        f"{named} does not work here. Allowed: {legible(error.allowed, 400)}. To fix it: {legible(error.remedy, 300)}."
    )


def _label(name: str) -> str:
    return next((row.label for row in FIELDS if row.name == name), legible(name))


def changed_text(scenario: Scenario, row: ScenarioField) -> str:
    """A parameter and its value."""
    return f"{row.name.replace('_', ' ')} {row.format(getattr(scenario, row.name))}"
