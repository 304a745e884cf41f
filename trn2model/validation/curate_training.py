"""Training rows: from the columns of the public tables to ours."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from trn2model.errors import DataError
from trn2model.specs import catalog
from trn2model.validation.printed import captured, cell, leading_number, number, product, quotient
from trn2model.validation.rules import Row, apply_facts, look_up, provenance

KIND: Final = "training"
_GPU_RANKS: Final = 1
_PRECISIONS: Final = {"fp8": "fp8", "amp_fp8": "fp8", "fp16": "fp16", "fp32": "fp32"}
_SHARDING: Final = {"FULL_SHARD": 3.0, "SHARD_GRAD_OP": 2.0, "FSDP(ZeRO-3)": 3.0}


def training_rows(raw: Mapping[str, str]) -> list[Row]:
    """Normalised row of a printed one."""
    row = _megatron(raw) if "paper_value" in raw else _common(raw)
    apply_facts(KIND, row, raw)
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
