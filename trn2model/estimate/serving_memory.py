"""HBM of serving per rank: weights, KV cache of the compiled batch, working space."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trn2model.estimate.kv_cache import kv_elements_per_token, kv_replication, windowed_tokens
from trn2model.estimate.layer import RankWork
from trn2model.estimate.model_states import parameter_shares
from trn2model.estimate.result import MemoryUse
from trn2model.estimate.stages import stage_table
from trn2model.estimate.summary import reserve_bytes, scalar
from trn2model.estimate.training_memory import saved_bytes
from trn2model.formulas import Numeric
from trn2model.specs.model import ModelSpec
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved


class ServingMemory(NamedTuple):
    """HBM of the heaviest stage, and the requests per replica that would fill it."""

    use: MemoryUse
    max_concurrency: Numeric


def serving_memory(resolved: Resolved, prefill: RankWork, head_tokens: Numeric) -> ServingMemory:
    r"""HBM of one rank and the largest concurrency that fits.

    .. math:: n_{max} = ep \left\lfloor \frac{C - W - A - R}{K} \right\rfloor

    Parameters
    ----------
    resolved : Resolved
        The scenario with all names looked up.
    prefill : RankWork
        The prefill pass, whose transient activations set the working space.
    head_tokens : Numeric
        Tokens whose logits are held at once. [token]

    Returns
    -------
    ServingMemory
        Parts sum to what is used; a negative room means that not even the weights fit: 0 requests.
    """
    plan, requests, model = resolved.plan, resolved.requests, resolved.model
    stages = stage_table(model, plan.pp, np.ones(plan.shape))
    weights = np.sum([share.weight_bytes for share in parameter_shares(resolved, stages)], axis=0)
    if resolved.draft is not None:
        weights = weights + _draft_weights(resolved, resolved.draft)
    context = requests.input_tokens + requests.output_tokens
    per_sequence = (stages.counts * _kv_per_block(resolved, context)).sum(axis=1)
    local = np.ceil(requests.compiled_batch / plan.ep)
    shape = weights.shape
    widest = np.max(
        [np.broadcast_to(saved_bytes(k, model, prefill, "selective"), plan.shape) for k in model.layer_kinds], axis=0
    )
    logits = stages.counts[:, -1] * head_tokens * model.vocab_size / plan.tp * prefill.element_bytes
    parts = {
        "weights": weights,
        "kv_cache": per_sequence * local,
        "activations": np.broadcast_to(widest, shape),
        "logits": logits,
        "buffers": np.broadcast_to(2.0 * prefill.tokens * model.hidden_size * prefill.element_bytes, shape),
        "reserve": np.full(shape, reserve_bytes(resolved)),
    }
    used = np.sum(list(parts.values()), axis=0)
    fullest = used.argmax(axis=0)[None]
    taken = {name: scalar(np.take_along_axis(part, fullest, axis=0)[0]) for name, part in parts.items()}
    room = resolved.core.hbm_bytes - (used - parts["kv_cache"])
    fitting = np.floor(np.maximum(room, 0.0) / np.maximum(per_sequence, 1.0)).min(axis=0) * plan.ep
    total = scalar(np.take_along_axis(used, fullest, axis=0)[0])
    return ServingMemory(MemoryUse(resolved.core.hbm_bytes, total, taken), scalar(fitting))


def _kv_per_block(resolved: Resolved, context: Numeric) -> Numeric:
    plan, model = resolved.plan, resolved.model
    width = dtype(resolved.kv_dtype).storage_bytes
    cached = np.zeros((len(model.layer_kinds) + 2, *plan.shape))
    for index, layer in enumerate(model.layer_kinds):
        spec = layer.attention
        tokens = windowed_tokens(context, spec)
        share = kv_replication(spec, plan.tp) / plan.tp / plan.cp
        cached[index] = kv_elements_per_token(spec) * width * tokens * share
    return cached


def _draft_weights(resolved: Resolved, draft_model: ModelSpec) -> Numeric:
    """The draft model is sharded like the large one and held whole on every stage."""
    draft = replace(resolved, model=draft_model)
    stages = stage_table(draft.model, np.ones(resolved.plan.shape), np.ones(resolved.plan.shape))
    return np.asarray(np.sum([share.weight_bytes for share in parameter_shares(draft, stages)], axis=0))
