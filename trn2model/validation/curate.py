"""Curation: rows of the public tables become rows of data/measurements."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from trn2model.errors import DataError, InvalidInputError
from trn2model.model.kv_cache import kv_bytes
from trn2model.model.parameters import model_parameters
from trn2model.specs import catalog
from trn2model.specs.model import ModelSpec
from trn2model.validation.kernels import collective_rows, operator_rows
from trn2model.validation.measurements import TABLES, Measurement, column_names, measured_model, read_measurements
from trn2model.validation.printed import (
    Row,
    Value,
    captured,
    cell,
    leading_number,
    look_up,
    number,
    product,
    provenance,
    quotient,
)
from trn2model.validation.rules import fill, verdict

_GPU_RANKS: Final = 1
_PRECISIONS: Final = {"fp8": "fp8", "amp_fp8": "fp8", "fp16": "fp16", "fp32": "fp32"}
_SHARDING: Final = {"FULL_SHARD": 3.0, "SHARD_GRAD_OP": 2.0, "FSDP(ZeRO-3)": 3.0}


def training_rows(raw: Mapping[str, str]) -> list[Row]:
    """Normalised row of a printed one."""
    row = _megatron(raw) if "paper_value" in raw else _common(raw)
    fill("train", row, raw)
    _layout(row)
    if row["metric"] == "step_time" and row["measured"] is None:
        row["measured"] = _step_time(row, raw)
    row["tokens_per_s"] = quotient(product(row["global_batch_size"], row["sequence_length"]), row["measured"])
    if row["metric"] != "step_time":
        row["tokens_per_s"] = None
    return [row]


def _common(raw: Mapping[str, str]) -> Row:
    system, _ = look_up("systems", cell(raw, "instance"))
    model, _ = look_up("models", cell(raw, "model"))
    notes = cell(raw, "notes")
    precision = cell(raw, "precision")
    row = provenance(raw) | {
        "metric": "step_time",
        "measured": None,
        "model": model or None,
        "system": system or None,
        "chips": number(cell(raw, "chips")),
        "lnc": 2.0 if system.startswith("trn2") else None,
        "interleave": captured(r"\bVP (\d+)", notes) or 1.0,
        "zero": _SHARDING.get(cell(raw, "zero"), number(cell(raw, "zero"))),
        "sequence_parallel": "true" if "sequence parallel" in cell(raw, "recompute") else None,
        "microbatch_size": number(cell(raw, "microbatch")),
        "global_batch_size": number(cell(raw, "global_batch")),
        "sequence_length": number(cell(raw, "seq_len")) or captured(r"seq_len not in csv, (\d+) taken", notes),
        "precision": next((ours for name, ours in _PRECISIONS.items() if precision.lower().startswith(name)), "bf16"),
        "optimizer": "adamw-bf16-sr" if precision.endswith("+SR") else None,
        "recompute": cell(raw, "recompute").partition(" ")[0] or _stated_recompute(notes),
        "lora_rank": captured(r"LoRA r(\d+)", notes),
    }
    degrees = {name: number(cell(raw, name)) for name in ("tp", "cp", "ep", "pp")}
    return row | degrees | {"dp": None}


def _stated_recompute(notes: str) -> str | None:
    found = re.search(r"recompute=(none|selective|full)", notes)
    return found.group(1) if found else None


def _megatron(raw: Mapping[str, str]) -> Row:
    metrics = {"activation_memory": "activation_bytes", "param+grad+optimizer_memory": "state_bytes"}
    value, in_gib = number(cell(raw, "paper_value")), cell(raw, "unit") == "GiB"
    usable = cell(raw, "unit") in {"s", "GiB"}
    return provenance(raw) | {
        "trust": "A",  # peer-reviewed papers alone
        "metric": metrics.get(cell(raw, "quantity"), "step_time"),
        "measured": product(value, 2.0**30 if in_gib else 1.0) if usable else None,
        "model": look_up("models", cell(raw, "model"))[0] or None,
        "system": look_up("systems", cell(raw, "gpu"))[0] or None,
        "chips": number(cell(raw, "n_gpus")),
        "tp": number(cell(raw, "tp")),
        "cp": 1.0,
        "ep": 1.0,
        "dp": None,
        "pp": number(cell(raw, "pp")),
        "interleave": number(cell(raw, "interleave")),
        "zero": 0.0,
        "sequence_parallel": cell(raw, "seq_parallel").lower() or None,
        "microbatch_size": number(cell(raw, "micro_batch")),
        "global_batch_size": number(cell(raw, "global_batch")),
        "sequence_length": number(cell(raw, "seq_len")),
        "precision": "fp16",
        "recompute": cell(raw, "recompute") or None,
        "lora_rank": 0.0,
    }


def _layout(row: Row) -> None:
    """Count of machines and data-parallel degree, which follow from the chips and the other degrees."""
    name, chips = row["system"], row["chips"]
    if not isinstance(name, str) or not isinstance(chips, float | int):
        return
    system = catalog.system(name)
    row["count"] = float(max(1, math.ceil(chips / system.num_chips)))
    ranks = chips * (_GPU_RANKS if system.chip.family == "gpu" else system.chip.num_cores / float(row["lnc"] or 1.0))
    tp, cp, ep, pp = (row[degree] for degree in ("tp", "cp", "ep", "pp"))
    rest = quotient(ranks, product(tp, cp, pp))
    if rest is None:
        return
    ep = float(ep or 1.0)
    if ep > rest or rest % ep:  # Megatron shards experts over the tensor-parallel ranks too
        ep = ep / float(tp or 1.0)
    row["ep"], row["dp"] = ep, rest / ep


def _step_time(row: Row, raw: Mapping[str, str]) -> float | None:
    throughput, unit = leading_number(cell(raw, "throughput")), cell(raw, "throughput_unit")
    tokens = product(row["global_batch_size"], row["sequence_length"])
    if unit in {"s/iteration", "s/step"}:
        return throughput
    if unit == "ms/step":
        return product(throughput, 1e-3)
    if unit == "seq/s (whole job)":
        return quotient(row["global_batch_size"], throughput)
    if unit in {"tokens/s (whole job)", "tokens/s"}:
        return quotient(tokens, throughput)
    if unit == "tokens/s/GPU":
        return quotient(tokens, product(throughput, row["chips"]))
    if unit.startswith("achieved TFLOP/s per GPU (counts the recompute"):
        return quotient(_flop_with_recompute(row, raw), product(throughput, 1e12, row["chips"]))
    return None


def _flop_with_recompute(row: Row, raw: Mapping[str, str]) -> float | None:
    """FLOP of a step as SC21 counts them, equation 3: 96 B s l h² (1 + s / 6h + V / 16 l h)."""
    batch, sequence = row["global_batch_size"], row["sequence_length"]
    layers, hidden, vocab = (number(cell(raw, name)) for name in ("layers", "hidden", "vocab"))
    share = quotient(sequence, product(6.0, hidden)), quotient(vocab, product(16.0, layers, hidden))
    if share[0] is None or share[1] is None:
        message = "a row in achieved TFLOP/s needs layers, hidden, vocab and seq_len"
        raise DataError(message)
    return product(96.0, batch, sequence, layers, hidden, hidden, 1.0 + share[0] + share[1])


METRICS: Final = {"ttft": ("ttft_ms_p50", 1e-3), "tpot": ("tpot_ms_p50", 1e-3)}
_ELEMENT_BYTES: Final = {"fp8": 1.0, "int8": 1.0}
_WEIGHTS: Final = (("fp16", "fp16"), ("int8", "int8"), ("fp8", "fp8"), ("bf16", "bf16"))


def inference_rows(raw: Mapping[str, str]) -> list[Row]:
    """Normalised rows of a printed one."""
    row = _configuration(raw)
    fill("serve", row, raw)
    _lay_out_service(row)
    rows = []
    for metric, (column, scale) in METRICS.items():
        value = number(cell(raw, column))
        if value is not None:
            rows.append(row | {"metric": metric, "measured": value * scale})
    throughput = number(cell(raw, "output_tokens_per_s"))
    if throughput is not None:
        share = row["concurrency"] if row.get("figure") == "per request" else 1.0
        rows.append(row | {"metric": "output_tokens_per_s", "measured": product(throughput, share)})
    if row["outside"] is not None:
        return rows[:1] or [row | {"metric": "tpot", "measured": None}]
    return rows or [row | {"metric": "tpot", "measured": None}]


def _configuration(raw: Mapping[str, str]) -> Row:
    system, _ = look_up("systems", cell(raw, "instance"))
    model, _ = look_up("models", cell(raw, "model"))
    notes, tp = cell(raw, "notes"), cell(raw, "tp")
    weight = next((ours for name, ours in _WEIGHTS if name in cell(raw, "weight_dtype").lower()), None)
    row = provenance(raw) | {
        "model": model or None,
        "system": system or None,
        "chips": leading_number(cell(raw, "chips")),
        "lnc": leading_number(cell(raw, "lnc")) if system.startswith("trn2") else None,
        "tp": None if "assumed" in tp else leading_number(tp),
        "dp": captured(r"x(\d+) instances", tp) or captured(r"DP ?(\d+)\)", cell(raw, "instance")) or 1.0,
        "input_tokens": leading_number(cell(raw, "input_len")),
        "output_tokens": leading_number(cell(raw, "output_len")),
        "max_length": captured(r"\bseq(?:_len| len)? (\d{3,})", notes),
        "precision": "bf16" if weight in {None, "int8", "fp16"} else weight,
        "weight_dtype": weight,
        "kv_dtype": "bf16" if cell(raw, "kv_dtype").startswith("bf16") else None,
        "statistic": "p50",
        "kernels": None,
    }
    row |= _batch(raw, float(row["dp"] or 1.0)) | _speculation(cell(raw, "speculation"))
    return row | {"prefill_batch": row["concurrency"] if notes.startswith("Batch;") else 1.0}


def _batch(raw: Mapping[str, str], replicas: float) -> Row:
    """Concurrency per replica, batch of the decode graph and arrival rate, out of one cell."""
    text = cell(raw, "batch")
    rate = captured(r"asynchronous@([\d.]+)", text)
    compiled = (
        captured(r"\(BS(\d+) graph", text)
        or captured(r"max-num-seqs (\d+)", text)
        or captured(r"batch-(\d+) graph", cell(raw, "notes"))
        or captured(r"^max (\d+)", text)
    )
    running = captured(r"concurrency (\d+)", text)
    if running is not None:
        running = float(math.ceil(running / replicas))
    elif rate is None:
        running = captured(r"^max (\d+)", text) or leading_number(text)
    return {"concurrency": running, "compiled_batch": compiled or running, "request_rate": rate}


def _speculation(text: str) -> Row:
    tokens = captured(r"\bk=(\d+)", text)
    if tokens is None:
        return {"draft_model": None, "draft_tokens": None, "acceptance": None}
    found = re.search(r"draft (\S+)", text)
    draft = "eagle" if "EAGLE" in text else look_up("models", found.group(1) if found else "")[0]
    accepted = captured(r"accept ([\d.]+)%", text)
    return {"draft_model": draft, "draft_tokens": tokens, "acceptance": product(accepted, 0.01)}


def _lay_out_service(row: Row) -> None:
    """Machines in use, and the concurrency of an open loop (its graph's batch: what arrives is served)."""
    name, tp, dp = row["system"], row["tp"], row["dp"]
    if row["concurrency"] is None and row["request_rate"] is not None:
        row["concurrency"] = row["compiled_batch"]
    if row["compiled_batch"] is None:
        row["compiled_batch"] = row["concurrency"]
    if not isinstance(name, str) or not isinstance(tp, float | int) or not isinstance(dp, float | int):
        return
    system = catalog.system(name)
    per_chip = 1.0 if system.chip.family == "gpu" else system.chip.num_cores / float(row["lnc"] or 1.0)
    chips = tp * dp / per_chip
    row["chips"] = chips
    if system.chip.family == "gpu" and isinstance(row["model"], str):
        row["memory_demand"] = _memory_demand(row, measured_model(row["model"]), tp * system.chip.hbm_bytes)
    row["count"] = float(max(1, math.ceil(chips / system.num_chips)))


def _memory_demand(row: Row, model: ModelSpec, hbm_bytes: float) -> float | None:
    """Weights and KV cache of all that is asked to run at a time, as a share of the memory; half the output is made."""
    sizes = [_ELEMENT_BYTES.get(str(row[name]), 2.0) for name in ("weight_dtype", "kv_dtype")]
    output = product(row["output_tokens"], 0.5)
    asked, given = row["concurrency"], row["input_tokens"]
    if output is None or not isinstance(asked, float | int) or not isinstance(given, float | int):
        return None
    cache = float(kv_bytes(model, given + output, sizes[1])) * asked
    return (model_parameters(model).total * sizes[0] + cache) / hbm_bytes


_READERS: Final[Mapping[str, Callable[[Mapping[str, str]], list[Row]]]] = {
    "train": training_rows,
    "serve": inference_rows,
    "collective": collective_rows,
    "gemm": operator_rows,
}
#: columns without which no row of a table can be read
_ESSENTIAL: Final[Mapping[str, tuple[str, ...]]] = {
    "train": ("model", "source"),
    "serve": ("model", "instance", "tp", "source"),
    "collective": ("op", "instance", "ranks", "bytes", "source"),
    "gemm": ("op", "shape", "dtype", "source"),
}
#: what makes two rows of a vendor's page measurements of the same thing, whatever plan it prints
_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "train": ("model", "system", "count", "global_batch_size", "sequence_length", "optimizer"),
    "serve": ("metric", "model", "system", "tp", "concurrency", "input_tokens", "output_tokens", "page"),
}
_PLAN: Final = ("tp", "pp", "zero")
_RESTATED: Final = re.compile("^neuron-benchmarks")


def read_table(text: str, needed: Sequence[str] = ()) -> list[dict[str, str]]:
    """Rows of a public table.

    Raises DataError (there is no header, a needed column is missing, a row has more cells than the header, or a cell is
    too long).
    """
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff")), restval="")
    try:
        rows = list(reader)
    except csv.Error as error:
        message = f"row {reader.reader.line_num}: {error}"
        raise DataError(message) from error
    if not reader.fieldnames:
        message = "row 1: no header"
        raise DataError(message)
    long = next((number for number, row in enumerate(rows, start=2) if None in row), None)
    if long is not None:
        message = f"row {long}: more cells than the header has columns"
        raise DataError(message)
    missing = [name for name in needed if name not in reader.fieldnames]
    if missing:
        message = f"row 1: no column {', '.join(missing)}; needed are {', '.join(needed)}"
        raise DataError(message)
    return rows


def published(table: str, text: str, name: str = "table") -> tuple[Measurement, ...]:
    """Measurements of a public table that is not part of the package.

    Raises InvalidInputError (no such table); DataError (the text lacks a column without which no row can be read, no
    row holds a measurement, or a cell is out of range).
    """
    rows = curate(table, name, read_table(text, _ESSENTIAL.get(table, ())))
    if not rows:
        message = "no rows with a measurement"
        raise DataError(message)
    return read_measurements(table, to_csv(table, rows))


def curate(table: str, name: str, rows: Sequence[Mapping[str, str]]) -> list[Row]:
    """Normalised rows of one public table; `name` begins their ids.

    Raises InvalidInputError (no such table); DataError (a row lacks a column the conversion needs).
    """
    if table not in TABLES:
        raise InvalidInputError("kind", table, "one of " + ", ".join(TABLES), "choose a listed kind")
    curated: list[Row] = []
    for line, raw in enumerate(rows, start=1):
        made = _READERS[table](raw)
        for row in made:
            row["id"] = f"{name}-{line:03d}" + (f"-{row['metric']}" if table == "serve" else "")
            row["use"], row["reason"] = verdict(table, row, raw)
        curated += made
    _set_aside_restated(table, curated)
    names = column_names(table)
    return [{name: row.get(name) for name in names} for row in curated]


def to_csv(table: str, rows: Iterable[Mapping[str, Value]]) -> str:
    """Curated rows as the text of a measurement file."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, column_names(table), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()


def _text(value: Value) -> str:
    if value is None:
        return ""
    return " ".join(value.split()) if isinstance(value, str) else f"{value:.10g}"


def _set_aside_restated(table: str, rows: Sequence[Row]) -> None:
    """Vendor pages that restate themselves: equal figures stay once, of several releases the newest is fitted on."""
    if table not in _SAME:
        return
    pages = [row for row in rows if row["use"] in {"fit", "check"} and _RESTATED.search(str(row["dataset"]))]
    for row in pages:
        row["page"] = "int8" if row.get("weight_dtype") == "int8" else ""
        row["release"] = ".".join(map(str, _release(row)))
    for *older, newest in _groups(pages, (*_SAME[table], "release", "measured")):
        for row in older:
            row["use"], row["reason"] = "excluded", f"restated in {newest['id']}"
    current = [row for row in pages if row["use"] != "excluded"]
    for *older, newest in _groups(current, (*_SAME[table], *_PLAN)):
        for row in older:
            row["use"], row["reason"] = "check", f"superseded by a later release of the software, {newest['id']}"


def _groups(rows: Sequence[Row], names: Sequence[str]) -> list[list[Row]]:
    """Rows that agree in the named columns, oldest first."""
    groups: dict[tuple[Value, ...], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (_release(row), str(row["date"]))):
        groups[tuple(row.get(name) for name in names)].append(row)
    return list(groups.values())


def _release(row: Mapping[str, Value]) -> tuple[int, ...]:
    found = re.search(r"Neuron (\d+(?:\.\d+)*)", str(row["version"]))
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()
