"""Communication of a pass: which collectives run, how often per block, and what of them stays exposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, moe
from trn2model.model.layers import RankWork, expert_imbalance
from trn2model.model.parameters import kv_heads_per_rank, value_size
from trn2model.network.cost import CollectiveCost, Network
from trn2model.network.placement import placement
from trn2model.specs.fields import AXES
from trn2model.specs.model import Layer, Moe
from trn2model.specs.plan import EVERYTHING, saved_groups
from trn2model.specs.resolve import Resolved
from trn2model.specs.topology import fabric

Floats = NDArray[np.float64]

_FP32_BYTES: Final = 4.0


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of collective of a pass."""

    axis: str  # "tp", "cp" or "ep"
    op: str  # as `network` names it
    message_bytes: Numeric  # payload of a call, shape (...) [B]
    forward: NDArray[np.float64]  # calls per microbatch, shape (blocks, ...)
    backward: NDArray[np.float64]  # calls per microbatch, shape (blocks, ...)
    cost: CollectiveCost  # of one call


def plan_network(resolved: Resolved) -> Network:
    """Network of a resolved plan."""
    scenario = resolved.scenario
    return Network(
        fabric(resolved.system, scenario.count, scenario.lnc),
        placement(scenario.placement.split(","), {axis: getattr(resolved.plan, axis) for axis in AXES}),
        resolved.profile.links,
        scenario.zero_group,
    )


def microbatch_calls(
    resolved: Resolved, work: RankWork, network: Network, *, sequence_parallel: bool, loss: bool = True
) -> list[Call]:
    """Collectives of one microbatch on one rank over tp, cp and ep."""
    counts = _BlockCounts(resolved, network)
    return [
        *_tensor_parallel(resolved, work, counts, sequence_parallel=sequence_parallel, loss=loss),
        *_expert_parallel(resolved, work, counts),
        *_context_parallel(resolved, work, counts),
    ]


class _BlockCounts:
    """Calls per block, spread over the plans; what is not kept for backward is exchanged again there."""

    def __init__(self, resolved: Resolved, network: Network) -> None:
        self.network = network
        kinds = resolved.model.layer_kinds
        self.shape = resolved.plan.shape
        self.moe = [isinstance(layer.feed_forward, Moe) for layer in kinds]
        scenario = resolved.scenario
        kept = saved_groups(scenario.recompute, scenario.saved_operators)
        self.again = {group: float(group not in kept) for group in EVERYTHING}
        self.kinds = kinds

    def spread(self, layers: Sequence[float], embedding: float = 0.0, head: float = 0.0) -> Floats:
        flat = np.array([*layers, embedding, head], dtype=np.float64)
        return flat.reshape(-1, *(1,) * len(self.shape))

    def only(self, index: int, calls: float = 1.0) -> list[float]:
        return [calls if i == index else 0.0 for i in range(len(self.kinds))]

    def call(
        self,
        axis: str,
        op: str,
        message_bytes: Numeric,
        *,
        forward: tuple[Sequence[float], float, float],
        backward: tuple[Sequence[float], float, float],
    ) -> Call:
        return self.spread_call(axis, op, message_bytes, forward=self.spread(*forward), backward=self.spread(*backward))

    def spread_call(self, axis: str, op: str, message_bytes: Numeric, *, forward: Floats, backward: Floats) -> Call:
        return Call(axis, op, message_bytes, forward, backward, self.network.cost((axis,), op, message_bytes))


def _tensor_parallel(
    resolved: Resolved,
    work: RankWork,
    counts: _BlockCounts,
    *,
    sequence_parallel: bool,
    loss: bool,
) -> list[Call]:
    hidden_bytes = work.tokens * resolved.model.hidden_size * work.element_bytes
    mixers, dense = [1.0] * len(counts.kinds), [0.0 if moe else 1.0 for moe in counts.moe]
    payloads = [(hidden_bytes, mixers, dense, 1.0)]
    if any(counts.moe):
        experts = [1.0 - n for n in dense]
        payloads.append((_expert_gather_bytes(resolved, work, hidden_bytes), [0.0 * n for n in dense], experts, 0.0))
    calls: list[Call] = []
    for payload, attention, feed_forward, ends in payloads:
        head = ends if loss else 0.0
        layers = _weighted(attention, feed_forward, 1.0, 1.0)
        sums = _weighted(attention, feed_forward, 1.0 + counts.again["output"], 1.0 + counts.again["down"])
        if not sequence_parallel:
            reduce = counts.call("tp", "all_reduce", payload, forward=(layers, ends, 0.0), backward=(sums, 0.0, head))
            calls.append(reduce)
            continue
        gathers = _weighted(attention, feed_forward, 2.0 + counts.again["qkv"], 2.0 + counts.again["up"])
        calls += [
            counts.call("tp", "all_gather", payload, forward=(layers, 0.0, head), backward=(gathers, ends, head)),
            counts.call("tp", "reduce_scatter", payload, forward=(layers, ends, 0.0), backward=(sums, 0.0, head)),
        ]
    return [*calls, _statistics(work, counts)] if loss else calls


def _weighted(attention: Sequence[float], feed_forward: Sequence[float], a: float, f: float) -> list[float]:
    return [a * mixer + f * mlp for mixer, mlp in zip(attention, feed_forward, strict=True)]


def _statistics(work: RankWork, counts: _BlockCounts) -> Call:
    """Reductions of the loss over the vocabulary shards: maximum, sum and target logit, in fp32."""
    nothing = [0.0] * len(counts.kinds)
    payload = work.tokens * _FP32_BYTES
    return counts.call("tp", "all_reduce", payload, forward=(nothing, 0.0, 3.0), backward=(nothing, 0.0, 0.0))


def _expert_gather_bytes(resolved: Resolved, work: RankWork, hidden_bytes: Numeric) -> Numeric:
    """Tokens gathered over tp before the experts: the routed copies once ep spreads them, else the tokens."""
    blocks = [layer.feed_forward for layer in resolved.model.layer_kinds]
    copies = [np.asarray(b.experts_per_token * expert_imbalance(b, work)) for b in blocks if isinstance(b, Moe)]
    routed = hidden_bytes * np.max(copies, axis=0)
    return np.where(np.asarray(work.ep) > 1.0, routed, hidden_bytes)


def _expert_parallel(resolved: Resolved, work: RankWork, counts: _BlockCounts) -> list[Call]:
    if not any(counts.moe):
        return []
    calls = []
    for index, layer in enumerate(counts.kinds):
        if not isinstance(layer.feed_forward, Moe):
            continue
        payload = moe.dispatch_bytes(
            work.tokens / work.tp,
            float(layer.feed_forward.experts_per_token),
            float(resolved.model.hidden_size),
            work.element_bytes,
            expert_imbalance(layer.feed_forward, work),
        )
        twice = counts.only(index, 2.0)
        back = counts.only(index, 2.0 + counts.again["up"] + counts.again["down"])
        calls.append(counts.call("ep", "all_to_all", payload, forward=(twice, 0.0, 0.0), backward=(back, 0.0, 0.0)))
    return calls


def _context_parallel(resolved: Resolved, work: RankWork, counts: _BlockCounts) -> list[Call]:
    ring = resolved.scenario.context_parallel_method == "ring"
    steps, again = np.asarray(work.cp) - 1.0, counts.again["attention"]
    calls = []
    for index, layer in enumerate(counts.kinds):
        if work.decode:
            calls.append(_partial_outputs(layer, index, work, counts))
            continue
        shard = kv_shard_bytes(layer, work)
        once = counts.spread(counts.only(index))
        if ring:
            forward = once * steps
            calls.append(counts.spread_call("cp", "permute", shard, forward=forward, backward=(2.0 + again) * forward))
            continue
        whole = shard * work.cp
        calls.append(counts.spread_call("cp", "all_gather", whole, forward=once, backward=(1.0 + again) * once))
        calls.append(counts.spread_call("cp", "reduce_scatter", whole, forward=0.0 * once, backward=once))
    return calls


def kv_shard_bytes(layer: Layer, work: RankWork) -> Numeric:
    """Keys and values of one layer that a rank holds of its piece of the sequence [B]."""
    return work.tokens * _kv_width(layer, work) * work.element_bytes


def _partial_outputs(layer: Layer, index: int, work: RankWork, counts: _BlockCounts) -> Call:
    """Flash decoding: each rank attends to its piece of the cache, then partial outputs (fp32) are summed."""
    spec = layer.attention
    width = spec.latent.latent_size if spec.latent is not None else value_size(spec)
    payload = work.tokens * spec.num_heads / work.tp * width * _FP32_BYTES
    once = counts.spread(counts.only(index))
    return counts.spread_call("cp", "all_reduce", payload, forward=once, backward=0.0 * once)


def _kv_width(layer: Layer, work: RankWork) -> Numeric:
    latent = layer.attention.latent
    if latent is not None:
        return float(latent.latent_size + latent.rope_size)
    return kv_heads_per_rank(layer.attention, work.tp) * (layer.attention.head_size + value_size(layer.attention))


@dataclass(frozen=True, slots=True)
class Transfer:
    """Activations and gradients between neighbouring stages."""

    axis: ClassVar = "pp"
    op: ClassVar = "permute"
    message_bytes: Numeric  # payload of a send, shape (...) [B]
    count: Numeric  # sends of a stage per microbatch, or of a whole pass of serving
    cost: CollectiveCost  # of one send

    @property
    def time(self) -> Numeric:
        """Link time of one microbatch [s]."""
        return np.asarray(self.count * self.cost.time)


def stage_transfer(resolved: Resolved, work: RankWork, network: Network) -> Transfer:
    """Point-to-point traffic of a pipeline stage: one send forward and one back for every virtual chunk.

    Notes
    -----
    Each of the tensor-parallel ranks sends its part; without sequence parallelism, where all of them hold the whole,
    the parts are gathered on the other side.

    References
    ----------
    .. [1] megatron-sc21
    """
    whole = work.tokens * resolved.model.hidden_size * work.element_bytes
    payload = whole / work.tp
    cost = network.cost(("pp",), "permute", payload)
    if not resolved.scenario.sequence_parallel:
        cost = cost._replace(time=cost.time + network.cost(("tp",), "all_gather", whole).time)
    return Transfer(payload, 2.0 * resolved.plan.interleave * (resolved.plan.pp > 1.0), cost)
