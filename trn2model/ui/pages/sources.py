"""Sources page: every figure with its origin, the sources, the assumptions, the terms and the formulas."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import trn2model.formulas
from trn2model.model.training.step import TrainingEstimate
from trn2model.specs import catalog
from trn2model.specs.profile import profile, profile_names
from trn2model.specs.provenance import STATUSES, Figure, sources
from trn2model.specs.scenario import FIELDS
from trn2model.text import NOTHING, quantity
from trn2model.ui.charts.style import Mode
from trn2model.ui.pages.content import Content, Equation, Folded, Listing, Metric, Remarks, Row
from trn2model.ui.pages.words import configuration
from trn2model.ui.tables import Cell, Table, table

TERMS: Final = (
    ("chip", "One accelerator: a Trainium2 has 8 NeuronCores and 96 GiB of HBM."),
    ("instance", "What one rents as trn2.48xlarge: 16 chips in a 4×4 torus."),
    ("UltraServer", "Four instances whose chips of equal (x, y) are joined in rings along z: 64 chips, 4×4×4."),
    ("EFA", "Network between systems; every byte that leaves a torus or a switch crosses it."),
    ("logical core, LNC", "One or two NeuronCores seen as one rank; LNC 2 gives 4 ranks per Trainium2."),
    ("rank", "What runs one copy of the program: a logical core, or a whole GPU."),
    ("tp, cp, ep, dp, pp", "Degrees of tensor, context, expert, data and pipeline parallelism."),
    ("group", "Ranks that differ only along one axis and talk to each other for it."),
    ("placement", "Order in which the axes fill the machine; the first one gets neighbouring cores."),
    ("microbatch", "Sequences that one replica takes through the layers at a time."),
    ("bubble", "Time in which a pipeline stage waits for its first or after its last microbatch."),
    ("exposed communication", "Time on the links that no computation hides; link time counts all of it."),
    ("MFU", "Model FLOP without recompute over the dense peak of all rented chips in the compute format."),
    ("HFU", "As MFU, with the FLOP of recompute counted."),
    (
        "algbw, busbw",
        "Bytes over time of a collective; busbw multiplies by the operation's factor, as nccom-test does.",
    ),
    (
        "Tensor, Vector, Scalar engine",
        "Parts of a NeuronCore for matmuls, for element-wise work, and for functions such as exp.",
    ),
    ("SBUF", "On-chip memory of a core from which the engines read."),
    ("HBM", "Memory of the device. Capacity is given in GiB (2^30 B), rates in GB/s and TB/s (10^9, 10^12 B/s)."),
    ("operational intensity", "FLOP of an operator per byte it moves to or from HBM."),
    ("dense, sparse N:M", "N of every M weights are kept; speeds are counted in FLOP of the dense product."),
    (
        "ideal, achievable",
        "Profiles: published peaks as if always reached, and what the best measured kernels and links reach.",
    ),
    (
        "published, derived, measured, assumed",
        "Status of a figure: printed by its source, computed from printed ones, timed, or ours.",
    ),
)


THIS: Final = "this scenario"
ALL: Final = "all"
_COLUMNS: Final = ("of", "figure", "value", "status", "source", "note", "alternatives", "locator")


def scopes() -> tuple[str, ...]:
    """What figures can be listed for: this scenario, everything, or one system, chip or profile."""
    return (THIS, ALL, *_holders())


def content(estimate: TrainingEstimate | None, _mode: Mode, scope: str, status: str) -> Content:
    """Sources page."""
    figures = _figures(estimate, scope, status)
    everything = all_figures()
    counts = {name: sum(row[3] == name for row in everything.rows) for name in STATUSES}
    remarks: tuple[Row, ...] = ()
    if estimate:
        remarks = ((Remarks("Assumptions of this estimate", tuple(estimate.assumptions)),),)
    return Content(
        title="Sources",
        configuration=configuration(estimate.resolved) if estimate else "",
        verdict=None,
        metrics=(
            Metric("Figures", f"{len(everything.rows):,}", "Numbers with a source in the package's data."),
            *(
                Metric(name.capitalize(), f"{number:,}", f"Figures whose status is {name}.")
                for name, number in counts.items()
            ),
            Metric("Sources", f"{len(sources()):,}", "Documents, pages and measurements that are cited."),
        ),
        rows=(
            (
                Listing(
                    f"Figures of {scope}",
                    "Search and sort in the table; a dash means that nothing is published.",
                    figures,
                ),
            ),
            *remarks,
            (Listing("Documents and pages cited", "", _source_table()),),
            (Listing("Terms", "", table(("term", "meaning"), TERMS)),),
            (Listing("Parameters of a scenario", "The key is what stands in a link.", _parameters()),),
            *((Folded(f"Formulas: {name}", equations),) for name, equations in formulas().items()),
        ),
    )


@cache
def all_figures() -> Table:
    """Every figure of every system, chip, price list and profile."""
    return table(_COLUMNS, [row for name, held in _holders().items() for row in _rows(name, held)])


@cache
def formulas() -> Mapping[str, tuple[Equation, ...]]:
    """Formulas of the package as their docstrings state them, by module."""
    found: dict[str, tuple[Equation, ...]] = {}
    for module in pkgutil.iter_modules(trn2model.formulas.__path__):
        equations = tuple(_equations(importlib.import_module(f"trn2model.formulas.{module.name}")))
        if equations:
            found[module.name] = equations
    return found


def _figures(estimate: TrainingEstimate | None, scope: str, status: str) -> Table:
    wanted = set(_holders()) if scope == ALL else {scope}
    if scope == THIS and estimate:
        resolved = estimate.resolved
        wanted = {resolved.system.name, resolved.system.chip.name, f"profile {resolved.profile.name}"}
    rows = [row for row in all_figures().rows if row[0] in wanted and status in (ALL, row[3])]
    return Table(_COLUMNS, tuple(rows))


@cache
def _holders() -> dict[str, Mapping[str, Figure]]:
    held: dict[str, Mapping[str, Figure]] = {}
    for name in catalog.system_names():
        system = catalog.system(name)
        prices = {f"price {option}": figure for option, figure in system.prices.items()}
        held[name] = {**system.figures, **prices}
    held |= {name: catalog.chip(name).figures for name in catalog.chip_names()}
    held |= {f"profile {name}": profile(name).figures for name in profile_names()}
    return held


def _rows(name: str, figures: Mapping[str, Figure]) -> Iterator[tuple[Cell, ...]]:
    known = sources()
    for key, figure in figures.items():
        source = known.get(figure.source)
        yield (
            name,
            key.replace("_", " "),
            quantity(figure.value, figure.unit),
            figure.status,
            source.title if source else figure.source,
            figure.note,
            "; ".join(
                f"{quantity(other.value, other.unit)} ({other.source}{': ' if other.note else ''}{other.note})"
                for other in figure.alternatives
            ),
            source.locator if source else NOTHING,
        )


def _source_table() -> Table:
    rows = [(s.id, s.title, s.revision, s.date, s.locator) for s in sources().values()]
    return table(("id", "title", "revision", "date", "locator"), sorted(rows))


def _parameters() -> Table:
    rows = [(row.label, row.key, row.name, row.format(row.default), row.help) for row in FIELDS]
    return table(("parameter", "key", "name", "default", "meaning"), rows)


def _equations(module: object) -> Iterator[Equation]:
    for name, function in inspect.getmembers(module, inspect.isfunction):
        text = inspect.getdoc(function) or ""
        blocks = re.findall(r"\.\. math::[ ]?(.*?)\n[ ]*\n", text, re.DOTALL)
        if function.__module__ == getattr(module, "__name__", "") and blocks:
            says = text.splitlines()[0]
            yield Equation(name.replace("_", " "), says, _gathered(blocks))


def _gathered(blocks: list[str]) -> str:
    """Blocks of a docstring as one formula; lines of a block that only continue it are joined."""
    joined = [" ".join(line.strip() for line in block.strip().splitlines()) for block in blocks]
    return joined[0] if len(joined) == 1 else r"\begin{gathered}" + r"\\".join(joined) + r"\end{gathered}"
