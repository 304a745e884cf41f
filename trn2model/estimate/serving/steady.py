"""Serving: prefill and decode of a static-graph engine, full replicas in steady state, what fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.feasibility import memory_violations
from trn2model.estimate.model.kv_cache import kv_bytes_per_token, kv_replication
from trn2model.estimate.network.collective_plans import ALGORITHMS
from trn2model.estimate.network.plan_network import Network, plan_network
from trn2model.estimate.rank.work import RankWork
from trn2model.estimate.result import CommunicationUse, Cost, MemoryUse, Violation, to_json
from trn2model.estimate.serving.draft import draft_resolved, with_draft
from trn2model.estimate.serving.memory import serving_memory
from trn2model.estimate.serving.passes import Pass, decode_work, prefill_work, scaled, serving_pass
from trn2model.estimate.serving.state import kv_transfer, serving_notes, steady_state
from trn2model.estimate.summary import assumptions, num_chips, rent, scalar
from trn2model.formulas import Numeric, speculation
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved
from trn2model.specs.serving_engine import has_static_graphs, prompts_per_pass


@dataclass(frozen=True)
class ServingEstimate:
    """Latency and throughput of one scenario; names are the JSON names, SI units, arrays for plan arrays.

    `ttft` is of one prompt that finds its replica free, with the transfer of its cache where replicas prefill apart;
    `tpot` is per token without prefill stalls, `tpot_with_stalls` on a full replica; `output_tokens_per_s` and
    `request_latency` are of full replicas too.
    """

    resolved: Resolved
    feasible: Any
    ttft: Numeric
    tpot: Numeric
    tpot_with_stalls: Numeric
    output_tokens_per_s: Numeric
    output_tokens_per_s_per_chip: Numeric
    max_concurrency: int | NDArray[np.int64]
    kv_bytes_per_token: Numeric
    kv_replication: Numeric
    tokens_per_step: Numeric
    request_latency: Numeric
    kv_transfer_time: Numeric
    time: Mapping[str, Mapping[str, Numeric]]
    ttft_range: tuple[Numeric, Numeric]
    tpot_range: tuple[Numeric, Numeric]
    memory: MemoryUse
    hbm_bandwidth_utilization: Numeric
    cost: Cost
    assumptions: tuple[str, ...]
    prefill: Pass
    decode: Pass
    network: Network

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Why a single scenario does not fit."""
        return memory_violations(self.memory, self.resolved) if np.ndim(self.ttft) == 0 else ()

    @property
    def communication(self) -> dict[str, tuple[CommunicationUse, ...]]:
        """Collectives of both phases, their algorithms by name for a single scenario."""
        phases = {"prefill": self.prefill.communication, "decode": self.decode.communication}
        return {phase: tuple(_named(use) for use in uses) for phase, uses in phases.items()}

    def to_dict(self) -> dict[str, Any]:
        """Estimate as JSON values.

        Returns
        -------
        dict
            The names of the public contract.
        """
        hidden = {"resolved", "prefill", "decode", "network"}
        result: dict[str, Any] = {"scenario": self.resolved.to_dict()}
        result |= {f.name: to_json(getattr(self, f.name)) for f in fields(self) if f.name not in hidden}
        result["violations"] = to_json(self.violations)
        result["communication"] = to_json(self.communication)
        return result


def estimate_serving(resolved: Resolved) -> ServingEstimate:
    r"""Estimate prefill, decode and the steady state of a replica.

    .. math:: \text{tokens/s} = dp \frac{c\,o}{c\,t_{prefill} + (o - 1)\,t_{decode} / n}

    Parameters
    ----------
    resolved : Resolved
        The scenario resolved for serving.

    Returns
    -------
    ServingEstimate
        Latencies, throughput, memory and cost.

    Raises
    ------
    UnsupportedError
        The chip publishes no rate for the precision or pattern.

    Notes
    -----
    A decode step costs the compiled batch, whatever the concurrency; the context of a step is the mean over the
    output. With expert parallelism each ep rank prefills a prompt of its own in the same pass. Pipeline stages work
    on different prompts, and on different groups of the batch, at the same time.
    """
    resolved = _aligned(resolved)
    requests = resolved.requests
    network = plan_network(resolved)
    prefill, work = prefill_pass(resolved, network)
    decode = decode_pass(resolved, network, decode_context(resolved), decode_span(resolved))
    gained = speculation.expected_tokens(requests.draft_tokens, requests.acceptance)
    tpot = decode.time / gained
    transfer = kv_transfer(resolved, network)
    steady = steady_state(resolved, batched_prefill(resolved, network, prefill), tpot, transfer)
    memory = serving_memory(resolved, work)
    host = np.full(resolved.plan.shape, resolved.profile.constants.request_time)
    ttft = prefill.time + transfer + host
    beside = {"request": host} | ({"kv_transfer": transfer} if resolved.scenario.prefill_replicas else {})
    return ServingEstimate(
        resolved=resolved,
        feasible=scalar(memory.use.used_bytes <= memory.use.capacity_bytes),
        ttft=scalar(ttft),
        tpot=scalar(tpot),
        tpot_with_stalls=scalar(steady.token_time),
        output_tokens_per_s=scalar(steady.token_rate),
        output_tokens_per_s_per_chip=scalar(steady.token_rate / num_chips(resolved)),
        max_concurrency=memory.max_concurrency,
        kv_bytes_per_token=scalar(kv_bytes_per_token(resolved.model, dtype(resolved.kv_dtype).storage_bytes)),
        kv_replication=scalar(kv_replication(resolved.model.layer_kinds[0].attention, resolved.plan.tp)),
        tokens_per_step=scalar(gained),
        request_latency=scalar(steady.latency + host),
        kv_transfer_time=scalar(transfer),
        time={"prefill": _plain({**prefill.parts, **beside}), "decode": _plain(decode.parts)},
        ttft_range=tuple(scalar(f * ttft) for f in resolved.profile.spread("prefill")),
        tpot_range=tuple(scalar(f * tpot) for f in resolved.profile.spread("decode")),
        memory=memory.use,
        hbm_bandwidth_utilization=scalar(decode.hbm_bytes / (decode.time * resolved.core.hbm_bandwidth)),
        cost=rent(resolved, steady.token_rate),
        assumptions=(*serving_notes(resolved), *assumptions(resolved)),
        prefill=prefill,
        decode=decode,
        network=network,
    )


def prefill_pass(resolved: Resolved, network: Network, prompts: Numeric | None = None) -> tuple[Pass, RankWork]:
    """Prefill of one prompt (or several together): its bucket whole, or in equal chunks with a growing context.

    Notes
    -----
    A static graph pads the last chunk; other engines compute what is left, here as chunks a little smaller.
    """
    requests = resolved.requests
    static = has_static_graphs(resolved.system.chip)
    if prompts is None:
        prompts = resolved.plan.ep if static else np.ones(resolved.plan.shape)
    bucket = requests.context_bucket
    chunk = np.minimum(bucket, requests.prefill_chunk) if requests.prefill_chunk else bucket
    chunks = np.ceil(bucket / chunk)
    chunk = chunk if static else bucket / chunks
    cached = requests.input_tokens - requests.prefill_tokens
    context = cached + (chunks + 1.0) * chunk / 2.0
    work = prefill_work(resolved, chunk, context, prompts, chunks * chunk)
    whole = scaled(serving_pass(resolved, work, network, work.sequences), chunks)
    if resolved.draft is None:
        return whole, work
    small = draft_resolved(resolved, resolved.draft)
    guess = prefill_work(small, chunk, context, prompts, chunks * chunk)
    return with_draft(whole, scaled(serving_pass(small, guess, plan_network(small), guess.sequences), chunks)), work


def batched_prefill(resolved: Resolved, network: Network, single: Pass) -> tuple[Pass, Numeric]:
    """Prefill pass of replicas that are full, and its prompts."""
    plan, requests = resolved.plan, resolved.requests
    if has_static_graphs(resolved.system.chip):
        return single, plan.ep
    each = prompts_per_pass(requests.context_bucket, requests.concurrency)
    prompts = np.minimum(each * plan.ep, requests.concurrency)
    return prefill_pass(resolved, network, prompts)[0], prompts


def decode_pass(resolved: Resolved, network: Network, context_tokens: Numeric, span_tokens: Numeric = 0.0) -> Pass:
    """One token for every request of the compiled batch, with the guesses of a draft model before it.

    With pipeline stages the batch travels in groups, one behind the other; where the stage that works longest makes
    them wait, the part "wait" says how long.
    """
    requests = resolved.requests
    per_sequence = 1.0 + requests.draft_tokens
    group = np.ceil(requests.compiled_batch / resolved.plan.pp)
    work = decode_work(resolved, group, per_sequence, context_tokens, span_tokens)
    step = serving_pass(resolved, work, network, work.tokens)
    if resolved.draft is not None:
        small = draft_resolved(resolved, resolved.draft)
        guess = decode_work(small, group, 1.0, context_tokens, span_tokens)
        drafts = serving_pass(small, guess, plan_network(small), guess.tokens)
        step = with_draft(step, scaled(drafts, requests.draft_tokens))
    return _in_groups(step, np.ceil(requests.compiled_batch / group), resolved.plan.pp)


def decode_context(resolved: Resolved) -> Numeric:
    r"""Tokens of the cache that a decode step reads, in the mean over the output [token].

    .. math:: i + \tfrac{o}{2} + p \, \tfrac{o}{2}

    Notes
    -----
    A static graph is compiled for the longest context, here the prompt with all its output.
    """
    requests = resolved.requests
    whole = requests.input_tokens + requests.output_tokens
    live = requests.input_tokens + requests.output_tokens / 2.0
    return live + resolved.profile.constants.kv_padding * (whole - live)


def decode_span(resolved: Resolved) -> Numeric:
    """Stretch of contexts that the steps of a request cover, around `decode_context` [token]."""
    return resolved.requests.output_tokens * (1.0 - resolved.profile.constants.kv_padding)


def _in_groups(step: Pass, groups: Numeric, stages: Numeric) -> Pass:
    """Token time of groups that follow each other through the stages, and what a rank reads meanwhile."""
    if not np.any(stages > 1.0):
        return step
    wait = np.maximum(groups * step.stage_time - step.time, 0.0)
    return replace(
        step,
        time=step.time + wait,
        parts={**step.parts, "wait": wait},
        hbm_bytes=step.hbm_bytes * groups / stages,
    )


def _plain(parts: Mapping[str, Numeric]) -> dict[str, Numeric]:
    return {name: scalar(part) for name, part in parts.items()}


def _named(use: CommunicationUse) -> CommunicationUse:
    single = np.ndim(use.algorithm) == 0
    return replace(use, algorithm=ALGORITHMS[int(use.algorithm)]) if single else use


def _aligned(resolved: Resolved) -> Resolved:
    """Plan columns in the shape of the requests, where only the requests are arrays."""
    plan, shape = resolved.plan, resolved.requests.input_tokens.shape
    if plan.shape == shape:
        return resolved
    columns = {f.name: np.broadcast_to(getattr(plan, f.name), shape) for f in fields(plan)}
    return replace(resolved, plan=replace(plan, **columns))
