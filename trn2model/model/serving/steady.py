"""Serving: prefill and decode of a static-graph engine, full replicas in steady state, what fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.formulas import Numeric, serving
from trn2model.model.calls import plan_network
from trn2model.model.draft import draft_resolved
from trn2model.model.feasibility import memory_violations
from trn2model.model.kv_cache import kv_bytes_per_token, kv_replication
from trn2model.model.layers import RankWork
from trn2model.model.parameters import kv_heads_per_rank
from trn2model.model.result import Cost, MemoryUse, Violation, assumptions, num_chips, rent, scalar, to_json
from trn2model.model.serving.memory import kv_rank_bytes, serving_memory
from trn2model.model.serving.passes import Pass, decode_work, prefill_work, scaled, serving_pass, with_draft
from trn2model.network.cost import Network
from trn2model.network.loads import CommunicationUse
from trn2model.network.ways import ALGORITHMS
from trn2model.specs.model import Moe
from trn2model.specs.numerics import dtype
from trn2model.specs.profile import Kind
from trn2model.specs.resolve import Resolved, has_static_graphs, prompts_per_pass


class SteadyState(NamedTuple):
    """Time per output token as a user sees it, tokens per second of all replicas, and a request from end to end."""

    token_time: Numeric
    token_rate: Numeric
    latency: Numeric


def steady_state(
    resolved: Resolved, prefill: tuple[Pass, Numeric], token_time: Numeric, transfer_time: Numeric
) -> SteadyState:
    """What full replicas reach: each slot takes the next request when one ends."""
    plan, requests = resolved.plan, resolved.requests
    output, concurrency = requests.output_tokens, requests.concurrency
    one, prompts = prefill
    apart = float(resolved.scenario.prefill_replicas)
    if apart:
        rate = serving.separate_request_rate(
            one.stage_time, token_time, output, concurrency, prompts, apart, plan.dp - apart
        )
        latency = one.time + transfer_time + (output - 1.0) * token_time
        return SteadyState(token_time, rate * output, latency)
    mixing = 0.0 if has_static_graphs(resolved.system.chip) else resolved.profile.serving.phase_overlap_fraction
    cycle = serving.request_cycle_time(one.time, one.stage_time, token_time, output, concurrency, prompts, mixing)
    stalled = serving.stalled_token_time(cycle, one.time, token_time, output)
    return SteadyState(stalled, plan.dp * concurrency * output / cycle, cycle)


def kv_transfer(resolved: Resolved, network: Network) -> Numeric:
    """Transfer of the cache of one prompt from a prefill replica to a decode replica, over the links between them [s].

    Notes
    -----
    Each rank sends its share to the rank of the same place in the other replica.
    """
    if not resolved.scenario.prefill_replicas:
        return np.zeros(resolved.plan.shape)
    payload = kv_rank_bytes(resolved, resolved.requests.input_tokens).max(axis=0)
    return np.asarray(network.cost(("dp",), "permute", payload).time)


def serving_notes(resolved: Resolved) -> tuple[str, ...]:
    """What the serving estimate of a scenario takes for granted."""
    requests, model = resolved.requests, resolved.model
    notes = []
    if np.any(requests.context_bucket > requests.prefill_tokens):
        least, most = requests.context_bucket.min(), requests.context_bucket.max()
        bucket = f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
        notes.append(f"prefill computes its whole context bucket of {bucket} tokens")
    if np.any(requests.compiled_batch > requests.concurrency):
        notes.append("a decode step costs the compiled batch, not the requests that run")
    notes += _head_notes(resolved)
    if dtype(resolved.weight_dtype).storage_bytes < dtype(resolved.scenario.precision).storage_bytes:
        notes.append(
            f"weights stored as {resolved.weight_dtype} are widened to {resolved.scenario.precision} on their way "
            "from HBM at no cost"
        )
    if np.any(resolved.plan.pp > 1):
        notes.append(
            "pipeline stages work on different prompts and different groups of the batch at the same time; the chunks "
            "of one prompt follow each other through all stages"
        )
    if resolved.profile.serving.dense_experts and any(isinstance(kind.feed_forward, Moe) for kind in model.layer_kinds):
        notes.append(
            f"profile {resolved.profile.name} runs every expert on every token of a prompt, as the measured software "
            "does; software that routes prompts to their own experts is faster (profile achievable)"
        )
    if resolved.scenario.prefill_replicas:
        notes.append(
            "prefill and decode replicas are full; the cache of a prompt moves while others run, each rank sending its "
            "own copy"
        )
    if model.layer_kinds[0].attention.latent is not None:
        notes.append("the latent cache of MLA is held by every tensor-parallel rank")
    return tuple(notes)


def _head_notes(resolved: Resolved) -> list[str]:
    spec, tp = resolved.model.layer_kinds[0].attention, np.max(resolved.plan.tp)
    if spec.latent is not None or tp * kv_heads_per_rank(spec, tp) <= spec.num_kv_heads:
        return []
    if tp % spec.num_kv_heads == 0:
        return [f"each of the {spec.num_kv_heads} key/value heads is cached on {tp / spec.num_kv_heads:.0f} ranks"]
    return [
        f"tp {tp:.0f} does not divide the {spec.num_kv_heads} key/value heads: every query head gets its own "
        f"({spec.num_heads} are cached)"
    ]


@dataclass(frozen=True)
class ServingEstimate:
    """Latency and throughput of one scenario; names are the JSON names, arrays where the scenario holds arrays."""

    resolved: Resolved  # scenario with everything decided
    feasible: Any  # whether it fits into HBM
    ttft: Numeric  # of a prompt that finds its replica free, transfer of its cache included [s]
    tpot: Numeric  # per token, without stalls by prefill [s]
    tpot_with_stalls: Numeric  # per token on a full replica [s]
    output_tokens_per_s: Numeric  # of full replicas [token/s]
    output_tokens_per_s_per_chip: Numeric  # over the rented chips [token/s]
    max_concurrency: int | NDArray[np.int64]  # requests per replica that HBM holds
    kv_bytes_per_token: Numeric  # over all layers, each head once [B]
    kv_replication: Numeric  # copies of the cache over a tensor-parallel group [1]
    tokens_per_step: Numeric  # expected from a decode step, above 1 with a draft [token]
    request_latency: Numeric  # on a full replica, first to last [s]
    kv_transfer_time: Numeric  # of a prompt's cache to its decode replica [s]
    time: Mapping[str, Mapping[str, Numeric]]  # parts of ttft ("prefill") and of a decode step ("decode") [s]
    ttft_range: tuple[Numeric, Numeric]  # low and high [s]
    tpot_range: tuple[Numeric, Numeric]  # low and high [s]
    memory: MemoryUse  # of the fullest rank
    hbm_bandwidth_utilization: Numeric  # of decode [1]
    cost: Cost  # of output tokens
    assumptions: tuple[str, ...]  # what it takes for granted
    prefill: Pass  # one prompt, all chunks
    decode: Pass  # one step of the compiled batch
    network: Network  # fabric and placement

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
    gained = serving.expected_tokens(requests.draft_tokens, requests.acceptance)
    tpot = decode.time / gained
    transfer = kv_transfer(resolved, network)
    steady = steady_state(resolved, batched_prefill(resolved, network, prefill), tpot, transfer)
    memory = serving_memory(resolved, work)
    host = np.full(resolved.plan.shape, resolved.profile.serving.request_time)
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
        ttft_range=tuple(scalar(f * ttft) for f in resolved.profile.spread(Kind.PREFILL)),
        tpot_range=tuple(scalar(f * tpot) for f in resolved.profile.spread(Kind.DECODE)),
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
    work = prefill_work(resolved, chunk, context, prompts, span_tokens=chunks * chunk)
    whole = scaled(serving_pass(resolved, work, network, work.sequences), chunks)
    if resolved.draft is None:
        return whole, work
    small = draft_resolved(resolved, resolved.draft)
    guess = prefill_work(small, chunk, context, prompts, span_tokens=chunks * chunk)
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
    work = decode_work(resolved, group, per_sequence, context_tokens, span_tokens=span_tokens)
    step = serving_pass(resolved, work, network, work.tokens)
    if resolved.draft is not None:
        small = draft_resolved(resolved, resolved.draft)
        guess = decode_work(small, group, 1.0, context_tokens, span_tokens=span_tokens)
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
    return live + resolved.profile.serving.kv_padding * (whole - live)


def decode_span(resolved: Resolved) -> Numeric:
    """Stretch of contexts that the steps of a request cover, around `decode_context` [token]."""
    return resolved.requests.output_tokens * (1.0 - resolved.profile.serving.kv_padding)


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
