"""Links: a scenario as the query string of a dashboard address, and back. Knows no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from trn2model.errors import InvalidInputError
from trn2model.specs.fields import ScenarioField
from trn2model.specs.scenario import FIELDS, Scenario

#: characters that stay readable in a query string: lists of axes, sparsity patterns
_READABLE: Final = ",:"


@dataclass(frozen=True, slots=True)
class Notice:
    """A value of a link that was not accepted, and the default that took its place."""

    key: str
    name: str
    value: str
    allowed: str
    fallback: str


def encode(scenario: Scenario) -> dict[str, str]:
    """Query parameters of a scenario: its non-default fields only.

    Raises InvalidInputError (the scenario holds arrays or a model that is not in the catalog; neither fits in a link).

    Examples
    --------
    >>> encode(Scenario(tp=16, sequence_parallel=False, sparsity="4:16"))
    {'tp': '16', 'sp': 'false', 'sx': '4:16'}
    """
    return link_texts(FIELDS, vars(scenario))


def link_texts(rows: Sequence[ScenarioField], values: Mapping[str, object]) -> dict[str, str]:
    """Query parameters of the rows of a table whose values are given by name and differ from the default.

    Raises InvalidInputError (a value has no short text).
    """
    texts = ((row, row.format(values[row.name])) for row in rows if row.name in values)
    return {row.key: text for row, text in texts if text != row.format(row.default)}


def query_string(parameters: Scenario | Mapping[str, str]) -> str:
    """Query string of a scenario or of query parameters, without the question mark.

    Raises InvalidInputError (the scenario holds arrays or a model that is not in the catalog).

    Examples
    --------
    >>> query_string(Scenario(tp=16, sparsity="4:16"))
    'tp=16&sx=4:16'
    """
    texts = encode(parameters) if isinstance(parameters, Scenario) else parameters
    return urlencode(texts, quote_via=quote, safe=_READABLE)


def decode(parameters: Mapping[str, str | Sequence[str]]) -> tuple[Scenario, tuple[Notice, ...]]:
    """Scenario of a link; never raises, whatever the link holds.

    Examples
    --------
    >>> scenario, notices = decode({"tp": "16", "lnc": "3", "utm": "x"})
    >>> scenario.tp, scenario.lnc, [notice.key for notice in notices]
    (16, 2, ['lnc'])
    """
    values, notices = decode_rows(FIELDS, parameters)
    return Scenario(**values), notices


def decode_rows(
    rows: Sequence[ScenarioField], parameters: Mapping[str, str | Sequence[str]]
) -> tuple[dict[str, Any], tuple[Notice, ...]]:
    """Values of a link for the rows of a table; never raises, whatever the link holds."""
    values: dict[str, Any] = {}
    notices = []
    for row in rows:
        if row.key in parameters:
            try:
                values[row.name] = row.parse(_last(parameters[row.key]))
            except InvalidInputError as error:
                notices.append(_notice(row, error))
    return values, tuple(notices)


def _last(text: object) -> str:
    if isinstance(text, (list, tuple)):
        text = text[-1] if text else ""
    return text if isinstance(text, str) else repr(text)


def _notice(row: ScenarioField, error: InvalidInputError) -> Notice:
    shown = str(error.value).encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate cannot be sent
    return Notice(row.key, row.name, shown, error.allowed, row.format(row.default))
