"""One pass of serving through the whole model: a prefill chunk or a decode step of the compiled batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.model.calls import Call, microbatch_calls
from trn2model.model.layers import (
    RankWork,
    activation_bytes,
    embedding_operators,
    head_operators,
    layer_operators,
    sparse_operators,
)
from trn2model.model.operators import OperatorTable, Widths, evaluate, rank_rates, tile_cores
from trn2model.model.stages import StageTable, sparse_weight_width, stage_table
from trn2model.network.cost import Network
from trn2model.network.loads import CommunicationUse
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved

#: Keeps the share of an axis that sends nothing at zero. [s]
_TINY_TIME = 1e-30
_HEAD_OPERATORS = frozenset({"embedding", "final_norm", "lm_head", "sampling"})


@dataclass(frozen=True, slots=True)
class Pass:
    """Time of one pass by part, what it moves, and its operators with how often each runs.

    `stage_time` is the share of the time for which the pass keeps the stage that works longest.
    """

    time: Numeric
    stage_time: Numeric
    parts: Mapping[str, Numeric]
    hbm_bytes: Numeric
    operators: OperatorTable
    operator_blocks: tuple[str, ...]
    operator_count: NDArray[np.float64]
    communication: tuple[CommunicationUse, ...]


def prefill_work(
    resolved: Resolved,
    query_tokens: Numeric,
    context_tokens: Numeric,
    prompts: Numeric = 1.0,
    span_tokens: Numeric = 0.0,
) -> RankWork:
    """What one rank computes for prompts in one pass, or in the mean over their chunks."""
    plan = resolved.plan
    sequences = np.ceil(prompts / plan.ep)
    tokens = sequences * query_tokens / plan.cp
    shard = tokens / plan.tp if resolved.scenario.sequence_parallel else tokens
    routed = prompts * query_tokens / plan.cp
    work = _work(resolved, tokens, shard, routed, sequences, query_tokens, context_tokens, decode=False)
    return replace(work, span_tokens=span_tokens)


def decode_work(
    resolved: Resolved,
    sequences: Numeric,
    tokens_per_sequence: Numeric,
    context_tokens: Numeric,
    span_tokens: Numeric = 0.0,
) -> RankWork:
    """What one rank computes in one decode step; the expert-parallel ranks share the batch."""
    local = np.ceil(sequences / resolved.plan.ep)
    tokens = local * tokens_per_sequence
    routed = sequences * tokens_per_sequence
    work = _work(resolved, tokens, tokens, routed, local, tokens_per_sequence, context_tokens, decode=True)
    return replace(work, span_tokens=span_tokens)


def serving_pass(resolved: Resolved, work: RankWork, network: Network, head_tokens: Numeric) -> Pass:
    """Cost of one pass through all stages."""
    model, plan = resolved.model, resolved.plan
    blocks = [layer_operators(layer, model, work) for layer in model.layer_kinds]
    blocks += [embedding_operators(model, work), head_operators(model, work, head_tokens, loss=False)]
    operators = [operator for block in blocks for operator in block]
    sparse = sparse_operators(operators, resolved.scenario.sparsity)
    stored = dtype(resolved.weight_dtype).storage_bytes
    widths = Widths(work.element_bytes, stored, sparse_weight_width(resolved), work.element_bytes)
    constants = resolved.profile.compute
    table = evaluate(operators, plan.shape, widths, sparse, rank_rates(resolved), resolved.core, constants)
    stages = stage_table(model, plan.pp, np.ones(plan.shape))
    sizes = [len(b) for b in blocks]
    block = np.repeat(np.arange(len(blocks)), sizes)
    count = np.broadcast_to(stages.totals[block], table.time.shape)
    calls = microbatch_calls(
        resolved, work, network, sequence_parallel=resolved.scenario.sequence_parallel and not work.decode, loss=False
    )
    uses = _uses(calls, stages.totals, table, count, resolved, decode=work.decode)
    longest = _longest_stage(stages, np.add.reduceat(table.time, np.cumsum([0, *sizes[:-1]]), axis=0), calls, uses)
    sends, send = _stage_sends(resolved, work, network)
    uses.append(sends)
    parts = _operator_parts(table.names, table.time * count)
    for axis in ("tp", "cp", "ep", "pp"):
        parts[axis] = sum((use.exposed_time for use in uses if use.axis == axis), np.zeros(plan.shape))
    parts["fixed"] = np.full(plan.shape, constants.step_time)
    names = (*(layer.name for layer in model.layer_kinds), "embedding", "head")
    time = np.sum(np.stack([np.asarray(part) for part in parts.values()]), axis=0)
    return Pass(
        time=time,
        stage_time=np.minimum(time, longest + send + constants.step_time),
        parts=parts,
        hbm_bytes=(table.hbm_bytes * count).sum(axis=0),
        operators=table,
        operator_blocks=tuple(names[i] for i in block),
        operator_count=count,
        communication=tuple(use for use in uses if np.any(use.link_time)),
    )


def scaled(one: Pass, factor: Numeric) -> Pass:
    """Several equal passes, one after another."""
    return replace(
        one,
        time=one.time * factor,
        stage_time=one.stage_time * factor,
        parts={name: part * factor for name, part in one.parts.items()},
        hbm_bytes=one.hbm_bytes * factor,
        operator_count=one.operator_count * factor,
        communication=tuple(
            replace(
                use,
                count=use.count * factor,
                link_time=use.link_time * factor,
                exposed_time=use.exposed_time * factor,
            )
            for use in one.communication
        ),
    )


def _work(
    resolved: Resolved,
    tokens: Numeric,
    shard_tokens: Numeric,
    routed_tokens: Numeric,
    sequences: Numeric,
    query_tokens: Numeric,
    context_tokens: Numeric,
    *,
    decode: bool,
) -> RankWork:
    plan = resolved.plan
    return RankWork(
        tokens=tokens,
        shard_tokens=shard_tokens,
        sequences=sequences,
        query_tokens=query_tokens,
        context_tokens=context_tokens,
        tp=plan.tp,
        cp=plan.cp,
        ep=plan.ep,
        routed_tokens=routed_tokens,
        element_bytes=activation_bytes(resolved.scenario.precision),
        kv_element_bytes=dtype(resolved.kv_dtype).storage_bytes,
        moe_imbalance=resolved.scenario.moe_imbalance,
        flash=resolved.scenario.attention_kernel == "flash",
        decode=decode,
        query_block=float(resolved.system.chip.tensor_engine.moving_size),
        expert_padding=resolved.profile.serving.expert_padding,
        lanes=float(resolved.system.chip.tensor_engine.contraction_size * tile_cores(resolved.core)),
        lane_padding=resolved.profile.serving.lane_padding,
        kv_expansion=resolved.profile.serving.kv_expansion,
        dense_experts=0.0 if decode else resolved.profile.serving.dense_experts,
        expert_sum_passes=resolved.profile.serving.expert_sum_passes,
    )


def _operator_parts(names: Sequence[str], time: NDArray[np.float64]) -> dict[str, Numeric]:
    """Operator time by what it serves: attention, embedding and head, GEMMs of the layers, and the rest."""
    kinds: dict[str, list[int]] = {"gemm": [], "attention": [], "elementwise": [], "head": []}
    for row, name in enumerate(names):
        kinds[_part_of(name)].append(row)
    return {kind: time[rows].sum(axis=0) for kind, rows in kinds.items()}


def _part_of(name: str) -> str:
    if name == "attention":
        return "attention"
    if name in _HEAD_OPERATORS:
        return "head"
    elementwise = ("norm", "residual", "rotary", "activation", "route", "combine")
    return "elementwise" if name.endswith(elementwise) else "gemm"


def _uses(
    calls: Sequence[Call],
    totals: NDArray[np.float64],
    table: OperatorTable,
    count: NDArray[np.float64],
    resolved: Resolved,
    *,
    decode: bool,
) -> list[CommunicationUse]:
    link = {axis: np.zeros(resolved.plan.shape) for axis in ("tp", "cp", "ep")}
    times = [(call.forward * totals).sum(axis=0) for call in calls]
    for call, number in zip(calls, times, strict=True):
        link[call.axis] = link[call.axis] + number * call.cost.time
    shown = _exposed_shares(link, table.time * count, table.names, resolved, decode=decode)
    return [
        CommunicationUse(
            call.axis,
            call.op,
            call.message_bytes,
            number,
            call.cost.algorithm,
            number * call.cost.time,
            shown[call.axis] * number * call.cost.time,
            call.cost.busbw,
        )
        for call, number in zip(calls, times, strict=True)
    ]


def _exposed_shares(
    link: Mapping[str, NDArray[np.float64]],
    spent: NDArray[np.float64],
    names: Sequence[str],
    resolved: Resolved,
    *,
    decode: bool,
) -> dict[str, NDArray[np.float64]]:
    """Share of each axis's link time that compute does not hide; a decode step has no ring to hide."""
    constants, cp = resolved.profile.compute, resolved.plan.cp
    free = spent.sum(axis=0)
    ring = resolved.scenario.context_parallel_method == "ring" and not decode
    pieces = spent[[name == "attention" for name in names]].sum(axis=0) * (cp - 1.0) / cp
    shares = {}
    for axis, fraction, limit in (
        ("tp", constants.tp_overlap_fraction, free),
        ("cp", 1.0 if ring else constants.tp_overlap_fraction, pieces if ring else free),
        ("ep", constants.ep_overlap_fraction, free),
    ):
        hidden = np.minimum(float(resolved.scenario.overlap) * fraction * link[axis], np.minimum(limit, free))
        free = free - hidden
        shares[axis] = 1.0 - hidden / np.maximum(link[axis], _TINY_TIME)
    return shares


def _longest_stage(
    stages: StageTable,
    block_time: NDArray[np.float64],
    calls: Sequence[Call],
    uses: Sequence[CommunicationUse],
) -> NDArray[np.float64]:
    """Time of the stage that works longest: its blocks, and what their collectives expose."""
    for call, use in zip(calls, uses, strict=True):
        block_time = block_time + call.forward * (use.exposed_time / np.maximum(use.count, 1.0))
    return np.asarray((stages.counts * block_time).sum(axis=1).max(axis=0))


def _stage_sends(resolved: Resolved, work: RankWork, network: Network) -> tuple[CommunicationUse, Numeric]:
    """Transfers between stages, and what one of them takes."""
    payload = work.shard_tokens * resolved.model.hidden_size * work.element_bytes
    cost = network.cost(("pp",), "permute", payload)
    times = resolved.plan.pp - 1.0
    link = times * cost.time
    return CommunicationUse("pp", "permute", payload, times, cost.algorithm, link, link, cost.busbw), cost.time


def with_draft(verified: Pass, drafts: Pass) -> Pass:
    """Pass of the large model with that of its draft in the same graph, so that the host pays once."""
    fused = drafts.time - drafts.parts["fixed"]
    return replace(
        verified,
        time=verified.time + fused,
        stage_time=verified.stage_time + fused,
        parts={**verified.parts, "draft": fused},
        hbm_bytes=verified.hbm_bytes + drafts.hbm_bytes,
    )
