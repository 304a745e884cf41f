"""One HTML file with everything a page shows: opens offline, draws the same charts, prints well."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from typing import Any, Final

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from trn2model.text import significant
from trn2model.ui.charts.chart import Chart
from trn2model.ui.charts.style import FONT, palette
from trn2model.ui.pages.content import Block, Content, Equation, Facts, Folded, Listing, Remarks, Row
from trn2model.ui.tables import Cell, Table

_COLOURS: Final = palette("light")
_STYLE: Final = f"""
body{{font:15px/1.5 {FONT};color:{_COLOURS.text};background:#fff;max-width:1080px;margin:32px auto;padding:0 24px}}
h1{{margin:0 0 4px;font-size:28px}} h2{{font-size:18px;margin:28px 0 4px}} .muted{{color:{_COLOURS.muted};margin:4px 0}}
.verdict{{border-left:4px solid {_COLOURS.series[0]};background:{_COLOURS.surface};padding:10px 14px;margin:16px 0}}
.good{{border-color:{_COLOURS.series[2]}}} .bad{{border-color:{_COLOURS.alert}}}
dl{{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}} dl div{{border:1px solid {_COLOURS.grid};padding:8px 14px}}
dt{{color:{_COLOURS.muted};font-size:13px}} dd{{margin:0;font-size:20px}}
table{{border-collapse:collapse;font-size:13px;margin:8px 0;width:100%}} .wide{{overflow-x:auto}}
th,td{{border-bottom:1px solid {_COLOURS.grid};padding:4px 8px;text-align:left;vertical-align:top}}
td.number{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}} code{{overflow-wrap:anywhere}}
figure{{margin:24px 0;break-inside:avoid}} details{{margin:4px 0 16px}} summary{{color:{_COLOURS.muted};cursor:pointer}}
"""
_DRAW: Final = """
for (const figure of document.querySelectorAll("figure[data-chart]")) {
  const chart = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
  Plotly.newPlot(figure.querySelector("div"), chart.data, chart.layout,
    {displaylogo: false, responsive: true, modeBarButtons: [["toImage"]],
     toImageButtonOptions: {format: "png", scale: 3, filename: figure.dataset.name}});
}
"""


def html(content: Content, address: str) -> str:
    """Self-contained report of a page, on white."""
    body = [f"<h1>{escape(content.title)}</h1>", f'<p class="muted">{escape(content.configuration)}</p>']
    if content.verdict:
        body.append(f'<p class="verdict {content.verdict.tone}">{escape(content.verdict.text)}</p>')
    body.append(_metrics(content))
    body += [_row(row, number) for number, row in enumerate(content.rows)]
    body.append(f'<p class="muted">trn2model · <code>{escape(address)}</code></p>')
    head = f'<meta charset="utf-8"><title>{escape(content.title)}</title><style>{_STYLE}</style>'
    library = f"<script>{_plotly()}</script>" if any(isinstance(b, Chart) for row in content.rows for b in row) else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}'
        f"{library}<script>{_DRAW}</script></body></html>\n"
    )


@cache
def _plotly() -> str:
    return str(get_plotlyjs())


def _metrics(content: Content) -> str:
    items = "".join(
        f"<div><dt>{escape(metric.label)}</dt><dd>{escape(metric.text)}</dd></div>" for metric in content.metrics
    )
    return f"<dl>{items}</dl>" if items else ""


def _row(row: Row, number: int) -> str:
    return "".join(_block(block, f"chart-{number}-{place}") for place, block in enumerate(row))


def _block(block: Block, name: str) -> str:
    if isinstance(block, Chart):
        return _chart(block, name)
    if isinstance(block, Listing):
        return f'<h2>{escape(block.title)}</h2><p class="muted">{escape(block.note)}</p>{_table(block.table)}'
    if isinstance(block, Remarks):
        lines = "".join(f"<li>{escape(line)}</li>" for line in block.lines)
        return f"<h2>{escape(block.title)}</h2><ul>{lines}</ul>"
    if isinstance(block, Facts):
        return _facts(block)
    if isinstance(block, Folded):
        return f"<h2>{escape(block.title)}</h2>{''.join(_equation(equation) for equation in block.equations)}"
    return ""


def _facts(block: Facts) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in block.items)
    return f'<h2>{escape(block.title)}</h2><p class="muted">{escape(block.note)}</p><table>{rows}</table>'


def _chart(chart: Chart, name: str) -> str:
    words = chart.words
    return (
        f'<figure data-chart="{name}" data-name="{escape(words.file_name)}" role="img" '
        f'aria-label="{escape(words.alt)}">'
        f'<div></div><script type="application/json" id="{name}">{_figure_json(chart.figure)}</script>'
        f"<details><summary>Table: {escape(words.title)}</summary>{_table(chart.table)}</details></figure>"
    )


def _equation(equation: Equation) -> str:
    name, says, latex = escape(equation.name), escape(equation.says), escape(equation.latex)
    return f"<p><b>{name}</b>: {says}<br><code>{latex}</code></p>"


def _figure_json(figure: dict[str, Any]) -> str:
    """Figure as JSON that cannot end the script element it stands in."""
    whole = go.Figure(figure).to_plotly_json()
    text = json.dumps(
        whole, default=lambda value: value.tolist() if hasattr(value, "tolist") else value.to_plotly_json()
    )
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in table.rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(cell: Cell) -> str:
    if cell is None:
        return "<td>–</td>"
    if isinstance(cell, float):
        return f'<td class="number">{significant(cell, 5)}</td>'
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f'<td class="number">{cell:,}</td>'
    return f"<td>{escape(str(cell))}</td>"
