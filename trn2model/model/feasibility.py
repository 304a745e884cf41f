"""Infeasible is data: what a plan asks for beyond what there is, and what would help."""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.model.draft import EAGLE, draft_weight_bytes
from trn2model.model.result import MemoryUse, Violation
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved
from trn2model.units import from_si

_NARROW_OPTIMIZER: Final = "adamw-bf16-sr"
#: ZeRO stage from which on the replicas share a part, and the name of the part in a sentence.
_ZERO: Final = {"optimizer": (1, "optimizer state"), "gradients": (2, "gradients"), "weights": (3, "weights")}


def memory_violations(memory: MemoryUse, resolved: Resolved) -> tuple[Violation, ...]:
    """Violation of a single plan's memory, if any, with the levers on its largest part that are not pulled yet."""
    if memory.used_bytes <= memory.capacity_bytes:
        return ()
    largest = max(memory.parts, key=lambda part: float(memory.parts[part]))
    levers = _serving if resolved.workload == "serve" else _training
    said = levers(largest, resolved) or ["choose a system with more HBM"]
    if largest == "weights" and resolved.workload == "serve" and resolved.draft is not None:
        said = _draft(float(memory.parts["weights"]), resolved) or said
    remedy = f"the largest part is {largest.replace('_', ' ')}: {_one_of(said)}"
    resource = f"HBM per {resolved.core.rank_name}"
    return (Violation(resource, float(memory.used_bytes), memory.capacity_bytes, "B", remedy),)


def _training(part: str, resolved: Resolved) -> list[str]:
    """What would shrink a part of the memory of training."""
    plan, scenario = resolved.plan, resolved.scenario
    smaller = ["lower the microbatch"] if plan.microbatch_size > 1 else []
    if part in _ZERO:
        stage, shared = _ZERO[part]
        narrow = part == "optimizer" and scenario.optimizer != _NARROW_OPTIMIZER
        further = [f"use {_NARROW_OPTIMIZER}"] if narrow else []
        if plan.zero < stage:
            return [*_raised(resolved, "tp", "pp", "ep"), f"use ZeRO {stage} to shard the {shared}", *further]
        if scenario.zero_group != "all":
            further = ["let the ZeRO group span all replicas", *further]
        return [*_more_ranks(resolved), *further]
    if part == "activations":
        recompute = []
        if scenario.recompute != "full":
            recompute = ["recompute more"]
        elif scenario.saved_operators:
            recompute = ["save fewer operators from recompute"]
        return [*recompute, *smaller, *_raised(resolved, "tp", "cp", "pp")]
    if part in ("logits", "buffers"):
        return [*smaller, *_raised(resolved, "tp" if part == "logits" else "cp")]
    return _reserve(resolved)


def _serving(part: str, resolved: Resolved) -> list[str]:
    """What would shrink a part of the memory of serving, where replicas hold whole copies of the weights."""
    if part == "weights":
        narrower = ["store the weights as fp8 or int8"] if _is_wide(resolved.weight_dtype) else []
        return [*_raised(resolved, "tp", "pp", "ep"), *narrower]
    if part == "kv_cache":
        attention = resolved.model.layer_kinds[0].attention
        shared = attention.latent is None and resolved.plan.tp < attention.num_kv_heads
        narrower = ["use an fp8 KV cache"] if _is_wide(resolved.kv_dtype) else []
        axes = ("tp", "cp", "pp") if shared else ("cp", "pp")
        context = float(resolved.requests.input_tokens + resolved.requests.output_tokens)
        windows = [kind.attention.window for kind in resolved.model.layer_kinds]
        shorter = ["shorten the context"] if any(not window or context < window for window in windows) else []
        return [*_fewer(resolved), *shorter, *_raised(resolved, *axes), *narrower]
    if part == "logits":
        return [*_fewer(resolved), *_raised(resolved, "tp")]
    if part in ("activations", "buffers"):
        if _decode_is_wider(resolved):
            return [*_fewer(resolved), *_raised(resolved, "pp", "ep")]
        return [*_smaller_pass(resolved), *_raised(resolved, "tp" if part == "activations" else "cp")]
    return _reserve(resolved)


def _draft(weights: float, resolved: Resolved) -> list[str]:
    """Levers on a draft model that weighs more than the model itself on a rank."""
    if resolved.draft is None:
        return []
    drafts = float(np.max(draft_weight_bytes(resolved, resolved.draft)))
    if 2.0 * drafts <= weights:
        return []
    smaller = "" if resolved.scenario.draft_model == EAGLE else "a smaller one or "
    size = f"{from_si(drafts, 'GiB'):,.3g} of {from_si(weights, 'GiB'):,.3g} GiB"
    return [f"the draft model {resolved.draft.name} takes {size}; choose {smaller}none"]


def _fewer(resolved: Resolved) -> list[str]:
    """Sequences of the decode graph: those it is compiled for, or else those that run."""
    compiled, running = float(resolved.requests.compiled_batch), float(resolved.requests.concurrency)
    if compiled > running:
        return [f"lower the compiled batch ({compiled:,.0f} for a concurrency of {running:,.0f})"]
    return ["lower the concurrency"] if running > 1 else []


def _smaller_pass(resolved: Resolved) -> list[str]:
    return ["use a smaller prefill chunk" if resolved.requests.prefill_chunk else "set a prefill chunk"]


def _decode_is_wider(resolved: Resolved) -> bool:
    """Whether a step of the compiled batch has more tokens on a rank than a prefill pass, and so sets the space."""
    requests, plan = resolved.requests, resolved.plan
    whole = float(requests.context_bucket)
    chunk = min(whole, requests.prefill_chunk or whole) / plan.cp
    return bool(np.ceil(requests.compiled_batch / plan.ep) * (1.0 + requests.draft_tokens) / plan.pp > chunk)


def _reserve(resolved: Resolved) -> list[str]:
    single = resolved.system.supports_lnc and resolved.scenario.lnc == 1
    return ["choose a larger logical core (lnc 2)"] if single else []


def _raised(resolved: Resolved, *axes: str) -> list[str]:
    """Degrees that can still grow, and whether that takes more machines: replicas give way first."""
    plan, limits = resolved.plan, resolved.limits
    most = {"tp": limits.num_heads, "pp": limits.num_layers, "ep": limits.num_experts}
    can = [axis for axis in axes if getattr(plan, axis) < most.get(axis, np.inf)]
    if not can:
        return []
    replicas = resolved.scenario.prefill_replicas + 1.0 if resolved.workload == "serve" else 1.0
    crowded = 2.0 * replicas * plan.num_ranks / plan.dp > resolved.num_ranks
    return [f"raise {_one_of(can)}" + (" with more systems" if crowded else "")]


def _more_ranks(resolved: Resolved) -> list[str]:
    """What ZeRO shards already is the same on a rank however the ranks in use are divided: only more of them help."""
    if 2.0 * resolved.plan.num_ranks > resolved.num_ranks:
        return ["raise dp with more systems"]
    return _raised(resolved, "tp", "pp", "dp")


def _is_wide(name: str) -> bool:
    """Whether a format takes more than a byte, block scales aside."""
    return round(dtype(name).storage_bytes) > 1


def _one_of(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
