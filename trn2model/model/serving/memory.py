"""HBM of serving per rank: weights, KV cache of the compiled batch, working space, and the draft model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.model.activations import saved_bytes
from trn2model.model.draft import draft_kv_bytes, draft_weight_bytes
from trn2model.model.kv_cache import kv_elements_per_token, kv_replication, windowed_tokens
from trn2model.model.layers import RankWork
from trn2model.model.result import MemoryUse, reserve_bytes, scalar
from trn2model.model.stages import fullest_stage, parameter_shares, stage_table
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved


class ServingMemory(NamedTuple):
    """HBM of the heaviest stage, and the requests per replica that would fill it."""

    use: MemoryUse
    max_concurrency: int | NDArray[np.int64]


def serving_memory(resolved: Resolved, prefill: RankWork) -> ServingMemory:
    r"""HBM of one rank and the largest concurrency that fits.

    .. math::
        n_{max} = ep \min\left( \left\lfloor \frac{C - W - R - a T}{K + L} \right\rfloor,
        \left\lfloor \frac{C - W - R}{K + L + a s} \right\rfloor \right)
    """
    plan, requests, model = resolved.plan, resolved.requests, resolved.model
    stages = stage_table(model, plan.pp, np.ones(plan.shape))
    weights = np.sum([share.weight_bytes for share in parameter_shares(resolved, stages)], axis=0)
    context = requests.input_tokens + requests.output_tokens
    per_sequence = kv_rank_bytes(resolved, context)
    if resolved.draft is not None:
        weights = weights + draft_weight_bytes(resolved, resolved.draft)
        per_sequence = per_sequence + draft_kv_bytes(resolved, resolved.draft, context)
    shape = weights.shape
    logits = (1.0 + requests.draft_tokens) * model.vocab_size / plan.tp * prefill.element_bytes * stages.counts[:, -1]
    local = np.ceil(requests.compiled_batch / plan.ep)
    layer, gathered = _widest_layer(resolved, prefill), 2.0 * prefill.tokens * model.hidden_size * prefill.element_bytes
    step_share = (1.0 + requests.draft_tokens) / plan.pp / prefill.tokens  # of a sequence, in the prefill pass
    widest = np.maximum(local * step_share, 1.0)
    parts = {
        "weights": weights,
        "kv_cache": per_sequence * local,
        "activations": np.broadcast_to(layer * widest, shape),
        "logits": logits * local,
        "buffers": np.broadcast_to(gathered * widest, shape),
        "reserve": np.full(shape, reserve_bytes(resolved)),
    }
    use, _ = fullest_stage(parts, resolved.core.hbm_bytes)
    room = np.maximum(resolved.core.hbm_bytes - parts["weights"] - parts["reserve"], 0.0)
    each, space = np.maximum(per_sequence + logits, 1.0), layer + gathered
    beside = np.floor(np.maximum(room - space, 0.0) / each)
    fitting = np.minimum(beside, np.floor(room / (each + space * step_share))).min(axis=0) * plan.ep
    return ServingMemory(use, scalar(fitting.astype(np.int64)))


def kv_rank_bytes(resolved: Resolved, tokens: Numeric) -> NDArray[np.float64]:
    """Cache of one sequence on a rank of each distinct stage [B]."""
    plan, model = resolved.plan, resolved.model
    stages = stage_table(model, plan.pp, np.ones(plan.shape))
    width = dtype(resolved.kv_dtype).storage_bytes
    cached = np.zeros((len(model.layer_kinds) + 2, *plan.shape))
    for index, layer in enumerate(model.layer_kinds):
        spec = layer.attention
        share = kv_replication(spec, plan.tp) / plan.tp / plan.cp
        cached[index] = kv_elements_per_token(spec) * width * windowed_tokens(tokens, spec) * share
    return stages.sums(cached)


def _widest_layer(resolved: Resolved, prefill: RankWork) -> NDArray[np.float64]:
    """Transient activations of a prefill pass: those of the layer that makes most."""
    model = resolved.model
    layers = [saved_bytes(kind, model, prefill, "selective") for kind in model.layer_kinds]
    return np.asarray(np.max([np.broadcast_to(layer, resolved.plan.shape) for layer in layers], axis=0))
