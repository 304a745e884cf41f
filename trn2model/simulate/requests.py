"""Requests of a serving queue: Poisson arrivals from a seed, or a trace in CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import DataError, InvalidInputError
from trn2model.specs.plan import MAX_TOKENS

Floats = NDArray[np.float64]

#: columns of a trace: seconds, tokens, tokens
TRACE_COLUMNS: Final = ("arrival", "input", "output")
_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}
#: most rows a trace may have
MAX_TRACE_ROWS: Final = 200_000
#: latest arrival; beyond it, seconds are no longer told apart to the microsecond [s]
MAX_ARRIVAL: Final = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in order of arrival, shape (requests,); tokens are whole numbers held as floats."""

    arrival: Floats  # [s]
    input_tokens: Floats  # of the prompt
    output_tokens: Floats  # to generate

    def __len__(self) -> int:
        """Count the requests."""
        return len(self.arrival)


def poisson_requests(
    rate: float,
    num_requests: int,
    input_tokens: float,
    output_tokens: float,
    *,
    seed: int = 0,
    variation: float = 0.0,
) -> Requests:
    """Requests that arrive independently of each other at a mean rate.

    Raises InvalidInputError (a number is outside its range).
    """
    if not rate > 0.0:
        raise InvalidInputError("rate", rate, "above 0 requests per second", "raise it")
    if num_requests < 1:
        raise InvalidInputError("num_requests", num_requests, "an integer of at least 1", "raise it")
    if not 0.0 <= variation <= 10.0:
        raise InvalidInputError("variation", variation, "0 to 10", "lower it")
    for field, tokens in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
        if not 1.0 <= tokens <= MAX_TOKENS:
            raise InvalidInputError(field, tokens, f"1 to {MAX_TOKENS} tokens", "change the length")
    random = np.random.default_rng(seed)
    gaps = random.exponential(1.0 / rate, num_requests)
    lengths = random.standard_normal((2, num_requests))
    return Requests(
        np.cumsum(gaps),
        varied_lengths(input_tokens, variation, lengths[0]),
        varied_lengths(output_tokens, variation, lengths[1]),
    )


def varied_lengths(mean: float, variation: float, normal: Floats) -> Floats:
    r"""Log-normal lengths [token].

    .. math:: n = m \, e^{\sigma z - \sigma^2 / 2}, \quad \sigma^2 = \ln(1 + v^2)
    """
    sigma = np.sqrt(np.log1p(variation**2))
    whole: Floats = np.rint(mean * np.exp(sigma * normal - sigma**2 / 2.0))
    return np.clip(whole, 1.0, MAX_TOKENS)


def parse_trace(text: str) -> Requests:
    r"""Requests read from CSV text with columns arrival [s], input and output [token]; other columns are ignored.

    Raises DataError (the text was UTF-16, columns are not separated by commas, the header lacks a column, a cell is no
    number in range (row and column are named; the header is row 1), or there are no rows or too many).

    Examples
    --------
    >>> parse_trace("arrival,input,output\n0.5,100,20\n0,50,10").input_tokens
    array([ 50., 100.])
    """
    rows = _rows(text.lstrip("\ufeff"))
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    missing = [column for column in TRACE_COLUMNS if column not in header]
    if missing:
        wanted = f"the header must hold {','.join(TRACE_COLUMNS)}"
        found = next((name for mark, name in _SEPARATORS.items() if mark in "".join(header)), None)
        message = f"trace row 1: no column {', '.join(missing)}; {wanted}"
        if found:
            message = f"trace row 1: its columns are separated by {found}; separate columns with commas: {wanted}"
        raise DataError(message)
    body = [(number, row) for number, row in enumerate(rows[1:], start=2) if any(cell.strip() for cell in row)]
    if not 1 <= len(body) <= MAX_TRACE_ROWS:
        message = f"trace: {len(body)} rows of requests; allowed are 1 to {MAX_TRACE_ROWS}"
        raise DataError(message)
    columns = [header.index(column) for column in TRACE_COLUMNS]
    values = np.array([[_cell(row, column, number, header[column]) for column in columns] for number, row in body])
    values = values[np.argsort(values[:, 0], kind="stable")]
    return Requests(values[:, 0], values[:, 1], values[:, 2])


def _rows(text: str) -> list[list[str]]:
    """Cells of all lines, whatever ends a line."""
    if "\0" in text:
        message = "trace: this looks like UTF-16 or binary, not like UTF-8 text; save it as UTF-8"
        raise DataError(message)
    reader = csv.reader(io.StringIO(text, newline=None))
    try:
        return list(reader)
    except csv.Error as error:
        message = f"trace row {reader.line_num}: a cell is longer than {csv.field_size_limit():,} characters"
        raise DataError(message) from error


def _cell(row: list[str], column: int, number: int, name: str) -> float:
    text = row[column].strip() if column < len(row) else ""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if name == "arrival":
        valid, wanted = 0.0 <= value <= MAX_ARRIVAL, f"a time in seconds of at least 0 and at most {MAX_ARRIVAL}"
    else:
        valid, wanted = 1.0 <= value <= MAX_TOKENS and value == int(value), f"a whole number from 1 to {MAX_TOKENS}"
    if not valid:
        message = f"trace row {number}, column {name}: {text[:40]!r} is not {wanted}"
        raise DataError(message)
    return value
