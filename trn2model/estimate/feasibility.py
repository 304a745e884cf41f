"""Infeasible is data: what a plan asks for beyond what there is, and what would help."""

from __future__ import annotations

from typing import Final

from trn2model.estimate.result import MemoryUse, Violation
from trn2model.specs.resolve import Resolved

_REMEDIES: Final = {
    "weights": "raise tp or pp, or ZeRO 3 to shard the weights",
    "gradients": "raise tp or pp, or use ZeRO 2 to shard the gradients",
    "optimizer": "raise dp with ZeRO 1, or use adamw-bf16-sr",
    "activations": "use more recompute, a smaller microbatch, or raise tp, cp or pp",
    "logits": "raise tp or lower the microbatch",
    "buffers": "lower the microbatch or raise cp",
    "reserve": "choose a larger logical core (lnc 2)",
    "kv_cache": "lower the concurrency or the context, raise tp, or use an fp8 KV cache",
}


def memory_violations(memory: MemoryUse, resolved: Resolved) -> tuple[Violation, ...]:
    """Violation of a single plan's memory, if any, with the lever on its largest part.

    Parameters
    ----------
    memory : MemoryUse
        HBM of one rank.
    resolved : Resolved
        The scenario with all names looked up.

    Returns
    -------
    tuple of Violation
        One entry when the parts exceed the capacity.
    """
    if memory.used_bytes <= memory.capacity_bytes:
        return ()
    largest = max(memory.parts, key=lambda part: float(memory.parts[part]))
    rank = "GPU" if resolved.system.chip.family == "gpu" else "logical core"
    remedy = f"the largest part is {largest.replace('_', ' ')}: {_REMEDIES[largest]}"
    return (Violation(f"HBM per {rank}", float(memory.used_bytes), memory.capacity_bytes, "B", remedy),)
