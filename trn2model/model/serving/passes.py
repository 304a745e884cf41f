"""One pass of serving through the whole model: a prefill chunk or a decode step of the compiled batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric
from trn2model.model.blocks import (
    Floats,
    block_times,
    communication_uses,
    exposed_share,
    exposed_times,
    link_times,
    model_blocks,
    rank_table,
)
from trn2model.model.calls import Call, Transfer, microbatch_calls
from trn2model.model.layers import RankWork, activation_bytes, sparse_operators
from trn2model.model.operators import OperatorTable, tile_cores
from trn2model.model.stages import StageTable, stage_table
from trn2model.network.cost import Network
from trn2model.network.loads import CommunicationUse
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved

_HEAD_OPERATORS = frozenset({"embedding", "final_norm", "lm_head", "sampling"})


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of serving, whole, through all stages; arrays end with the axes of the plans."""

    time: Numeric  # sum of the parts [s]
    stage_time: Numeric  # share of it for which the pass keeps the stage that works longest [s]
    parts: Mapping[str, Numeric]  # of the time: gemm, attention, elementwise, head, tp, cp, ep, pp, fixed ... [s]
    hbm_bytes: Numeric  # of the ranks that one pass goes through [B]
    operators: OperatorTable  # one row per operator of a block
    operator_blocks: tuple[str, ...]  # block of each operator
    operator_count: NDArray[np.float64]  # runs of each operator in the pass, shape (operators, ...)
    communication: tuple[CommunicationUse, ...]  # collectives that take time


def prefill_work(
    resolved: Resolved,
    query_tokens: Numeric,
    context_tokens: Numeric,
    prompts: Numeric = 1.0,
    *,
    span_tokens: Numeric = 0.0,
) -> RankWork:
    """What one rank computes for prompts in one pass, or in the mean over their chunks."""
    plan = resolved.plan
    sequences = np.ceil(prompts / plan.ep)
    tokens = sequences * query_tokens / plan.cp
    work = _work(
        resolved,
        tokens=tokens,
        shard_tokens=tokens / plan.tp if resolved.scenario.sequence_parallel else tokens,
        routed_tokens=prompts * query_tokens / plan.cp,
        sequences=sequences,
        query_tokens=query_tokens,
        context_tokens=context_tokens,
        decode=False,
    )
    return replace(work, span_tokens=span_tokens)


def decode_work(
    resolved: Resolved,
    sequences: Numeric,
    tokens_per_sequence: Numeric,
    context_tokens: Numeric,
    *,
    span_tokens: Numeric = 0.0,
) -> RankWork:
    """What one rank computes in one decode step; the expert-parallel ranks share the batch."""
    local = np.ceil(sequences / resolved.plan.ep)
    tokens = local * tokens_per_sequence
    work = _work(
        resolved,
        tokens=tokens,
        shard_tokens=tokens,
        routed_tokens=sequences * tokens_per_sequence,
        sequences=local,
        query_tokens=tokens_per_sequence,
        context_tokens=context_tokens,
        decode=True,
    )
    return replace(work, span_tokens=span_tokens)


def serving_pass(resolved: Resolved, work: RankWork, network: Network, head_tokens: Numeric) -> Pass:
    """Cost of one pass through all stages."""
    plan, scenario = resolved.plan, resolved.scenario
    blocks = model_blocks(resolved.model, work, head_tokens, loss=False)
    table = rank_table(resolved, work, blocks.operators, sparse_operators(blocks.operators, scenario.sparsity))
    stages = stage_table(resolved.model, plan.pp, np.ones(plan.shape))
    count = np.broadcast_to(stages.totals[blocks.block_of], table.time.shape)
    sequence_parallel = scenario.sequence_parallel and not work.decode
    calls = microbatch_calls(resolved, work, network, sequence_parallel=sequence_parallel, loss=False)
    sends = _stage_sends(resolved, work, network)
    (busy,) = block_times(resolved, blocks, table)
    spent = table.time * (busy / blocks.sums(table.time))[blocks.block_of] * count
    link = {axis: time[0] for axis, time in link_times(calls, busy.shape, ("forward",)).items()}
    exposed = _exposed(resolved, work, stages, link, busy=busy, attention=blocks.attention_sums(table.time))
    fixed = resolved.profile.compute.step_time
    parts = _operator_parts(table.names, spent)
    parts |= {axis: (stages.totals * waiting).sum(axis=0) for axis, waiting in exposed.items()}
    parts |= {"pp": sends.time, "fixed": np.full(plan.shape, fixed)}
    time = np.sum(np.stack([np.asarray(part) for part in parts.values()]), axis=0)
    longest = stages.sums(busy + np.sum(list(exposed.values()), axis=0)).max(axis=0)
    counted: list[tuple[Call | Transfer, Numeric]] = [(c, (c.forward * stages.totals).sum(axis=0)) for c in calls]
    counted.append((sends, sends.count))
    return Pass(
        time=time,
        stage_time=np.minimum(time, longest + sends.cost.time + fixed),
        parts=parts,
        hbm_bytes=(table.hbm_bytes * count).sum(axis=0),
        operators=table,
        operator_blocks=tuple(blocks.names[i] for i in blocks.block_of),
        operator_count=count,
        communication=tuple(communication_uses(counted, parts)),
    )


def _exposed(
    resolved: Resolved,
    work: RankWork,
    stages: StageTable,
    link: Mapping[str, Floats],
    *,
    busy: Floats,
    attention: Floats,
) -> dict[str, Floats]:
    """Exposed communication per axis and block of a pass that hides its calls anywhere in its compute [s]."""

    def whole(per_block: Floats) -> Floats:
        return np.asarray((stages.totals * per_block).sum(axis=0))

    links = {axis: whole(time) for axis, time in link.items()}
    exposed = exposed_times(resolved, work, links, busy=whole(busy), attention=whole(attention))
    return {axis: time * exposed_share(exposed[axis], links[axis]) for axis, time in link.items()}


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
    *,
    tokens: Numeric,
    shard_tokens: Numeric,
    routed_tokens: Numeric,
    sequences: Numeric,
    query_tokens: Numeric,
    context_tokens: Numeric,
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


def _stage_sends(resolved: Resolved, work: RankWork, network: Network) -> Transfer:
    """Transfers between stages."""
    payload = work.shard_tokens * resolved.model.hidden_size * work.element_bytes
    return Transfer(payload, resolved.plan.pp - 1.0, network.cost(("pp",), "permute", payload))


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
