"""What a page shows, as plain data: the screen draws it, the report prints it, the downloads hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from trn2model.ui.charts.chart import Chart
from trn2model.ui.tables import Table, table, to_records

Tone = Literal["good", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number to read from afar, what it means, and beside it how sure it is."""

    label: str
    value: str
    help: str
    range: str = ""

    @property
    def text(self) -> str:
        """Value with its range."""
        return f"{self.value} ({self.range})" if self.range else self.value


@dataclass(frozen=True, slots=True)
class Verdict:
    """The sentence that answers the page's question."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Listing:
    """A table to read, with a title and a line on how to read it.

    `picks` is the session key that takes the first cell of a chosen row; empty where rows are not chosen.
    """

    title: str
    note: str
    table: Table
    picks: str = ""


@dataclass(frozen=True, slots=True)
class Remarks:
    """Plain sentences under a title."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """A formula in LaTeX and what it gives."""

    name: str
    says: str
    latex: str


@dataclass(frozen=True, slots=True)
class Folded:
    """Formulas under a title that opens on demand."""

    title: str
    equations: tuple[Equation, ...]


@dataclass(frozen=True, slots=True)
class Links:
    """Plain links to other scenarios: what each is called and its query string; `page` is another page to open."""

    title: str
    items: tuple[tuple[str, str], ...]
    page: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to say about one thing, name by name, and a link to it."""

    title: str
    note: str
    items: tuple[tuple[str, str], ...]
    links: Links | None = None


Block = Chart | Listing | Remarks | Folded | Links | Facts
#: Blocks side by side on a wide screen, below each other on a narrow one.
Row = tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """A whole page."""

    title: str
    configuration: str
    verdict: Verdict | None
    metrics: tuple[Metric, ...]
    rows: tuple[Row, ...]

    def joined(self, parts: Sequence[Content]) -> Content:
        """The page with further sections below, as one page for reports and downloads."""
        rows = list(self.rows)
        for part in parts:
            said = [part.verdict.text] if part.verdict else []
            said += [f"{metric.label}: {metric.text}" for metric in part.metrics]
            rows += [(Remarks(part.title, tuple(said)),), *part.rows]
        return replace(self, rows=tuple(rows))

    def tables(self) -> dict[str, Table]:
        """Every table of the page, chart twins included, by title."""
        found: dict[str, Table] = {}
        for block in (block for row in self.rows for block in row):
            if isinstance(block, Chart):
                found[block.words.title] = block.table
            elif isinstance(block, Listing):
                found[block.title] = block.table
            elif isinstance(block, Facts):
                found[block.title] = table(("what", "value"), block.items)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Page as JSON values."""
        return {
            "page": self.title,
            "configuration": self.configuration,
            "verdict": self.verdict.text if self.verdict else None,
            "metrics": {metric.label: metric.text for metric in self.metrics},
            "tables": {title: to_records(rows) for title, rows in self.tables().items()},
        }
