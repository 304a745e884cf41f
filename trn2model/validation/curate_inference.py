"""Inference rows: from the columns of the public tables to ours, one row per metric."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from trn2model.estimate.model.kv_cache import kv_bytes
from trn2model.estimate.model.parameters import model_parameters
from trn2model.specs import catalog
from trn2model.specs.model import ModelSpec
from trn2model.validation.measurements import measured_model
from trn2model.validation.printed import captured, cell, leading_number, number, product
from trn2model.validation.rules import Row, apply_facts, look_up, provenance

KIND: Final = "inference"
METRICS: Final = {"ttft": ("ttft_ms_p50", 1e-3), "tpot": ("tpot_ms_p50", 1e-3)}
_ELEMENT_BYTES: Final = {"fp8": 1.0, "int8": 1.0}
_WEIGHTS: Final = (("fp16", "fp16"), ("int8", "int8"), ("fp8", "fp8"), ("bf16", "bf16"))


def inference_rows(raw: Mapping[str, str]) -> list[Row]:
    """Normalised rows of a printed one."""
    row = _configuration(raw)
    apply_facts(KIND, row, raw)
    _layout(row)
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


def _layout(row: Row) -> None:
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
