"""Full replicas in steady state: throughput with prefill stalls, or with phases on replicas of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trn2model.estimate.model.parameters import kv_heads_per_rank
from trn2model.estimate.network.plan_network import Network
from trn2model.estimate.serving.memory import kv_rank_bytes
from trn2model.estimate.serving.passes import Pass
from trn2model.formulas import Numeric, serving
from trn2model.specs.model import Moe
from trn2model.specs.numerics import dtype
from trn2model.specs.resolve import Resolved
from trn2model.specs.serving_engine import has_static_graphs


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
    mixing = 0.0 if has_static_graphs(resolved.system.chip) else resolved.profile.constants.phase_overlap_fraction
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
    if resolved.profile.constants.dense_experts and any(
        isinstance(kind.feed_forward, Moe) for kind in model.layer_kinds
    ):
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
