"""Report of the validation: errors by dataset, on the package's measurements or on a file of the same kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from trn2model.errors import DataError, InvalidInputError
from trn2model.specs.user_file import MAX_CSV_BYTES, read_user_file
from trn2model.validation.compare import ErrorRow, error_table, summary_table
from trn2model.validation.curate import published
from trn2model.validation.measurements import Measurement, measurements
from trn2model.validation.points import LeftOut, Point, is_timed, points_of, validation_points

#: Kinds of the command line and the measurement files behind them.
FILE_KINDS: Final = {"train": "training", "serve": "inference", "collective": "collective", "gemm": "operator"}


def validate_report(csv: str | None = None, kind: str | None = None) -> dict[str, Any]:
    """Errors by dataset as JSON values.

    Raises InvalidInputError (the kind is unknown or missing, or the file cannot be read or is no table of that kind).
    """
    if kind is not None and kind not in FILE_KINDS:
        raise InvalidInputError("kind", kind, "one of " + ", ".join(FILE_KINDS), "choose one of them")
    if csv is not None:
        return _file_report(csv, kind)
    kinds = [FILE_KINDS[kind]] if kind else list(FILE_KINDS.values())
    rows = [row for name in kinds for row in measurements(name) if is_timed(row)]
    wanted = {row.id for row in rows}
    points = [point for point in validation_points() if point.id in wanted]
    shown = {point.id for point in points}
    left = [LeftOut(row.id, row.dataset, row.trust, row.reason) for row in rows if row.id not in shown]
    return _document(points, left, rows)


def _file_report(path: str, kind: str | None) -> dict[str, Any]:
    if kind is None:
        raise InvalidInputError("kind", None, "one of " + ", ".join(FILE_KINDS), "say what the file measures")
    text = read_user_file("csv", path, "CSV", MAX_CSV_BYTES)
    try:
        rows = published(kind, text, Path(path).stem)
    except DataError as error:
        remedy = "mend that place in the file"
        raise InvalidInputError("csv", path[:60], f"a table of {kind} measurements ({error})", remedy) from error
    used = [row for row in rows if row.use in ("fit", "check") and is_timed(row)]
    points, left = points_of(used)
    compared = {row.id for row in used}
    omitted = [
        LeftOut(row.id, row.dataset, row.trust, row.reason) for row in rows if row.id not in compared and is_timed(row)
    ]
    return _document(points, [*left, *omitted], [row for row in rows if is_timed(row)])


def _document(points: Sequence[Point], left: Sequence[LeftOut], rows: Sequence[Measurement]) -> dict[str, Any]:
    kinds = {point.id: point.kind for point in points}
    totals = Counter((row.dataset, kinds.get(row.id, "")) for row in rows)
    return {
        "datasets": [_json(row) for row in error_table(points, totals)],
        "summaries": [_json(row) for row in summary_table(points)],
        "left_out": dict(Counter(item.reason for item in left).most_common()),
    }


def _json(row: ErrorRow) -> dict[str, Any]:
    outside = row.out_of_group_mean
    middle = row.out_of_group_median
    return {
        "name": row.name,
        "kind": row.kind,
        "profiles": list(row.profiles),
        "rows": row.rows,
        "used": row.used,
        "mean_abs_pct_error": 100.0 * row.mean,
        "median_abs_pct_error": 100.0 * row.median,
        "max_abs_pct_error": 100.0 * row.largest,
        "within_range_fraction": row.within_range,
        "loo_mean_abs_pct_error": 100.0 * (row.mean if outside is None else outside),
        "loo_median_abs_pct_error": 100.0 * (row.median if middle is None else middle),
    }
