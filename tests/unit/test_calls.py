"""Collective calls of a microbatch: Megatron's counts and volumes, independent of the algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trn2model.model.calls import microbatch_calls, plan_network, stage_transfer
from trn2model.model.estimate import estimate
from trn2model.model.training.compute import training_work
from trn2model.network.cost import Network
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import Scenario


def _plan(**fields: Any) -> tuple[Resolved, Network]:
    resolved = resolve(Scenario(**fields))
    return resolved, plan_network(resolved)


def _counts(**fields: Any) -> dict[tuple[str, str], tuple[float, float]]:
    """Calls over a whole model, forward and backward, by axis and operation, layers only."""
    resolved, network = _plan(**fields)
    calls = microbatch_calls(
        resolved, training_work(resolved), network, sequence_parallel=resolved.scenario.sequence_parallel
    )
    totals = np.array([*resolved.model.layer_counts])
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for call in calls:
        forward, backward = found.get((call.axis, call.op), (0.0, 0.0))
        forward += float((call.forward[:-2] * totals).sum())
        found[call.axis, call.op] = (forward, backward + float((call.backward[:-2] * totals).sum()))
    return found


def test_all_reduces_without_sequence_parallel() -> None:
    """Two per layer forward, two backward."""
    assert _counts(sequence_parallel=False)["tp", "all_reduce"] == (160, 160)


def test_gather_and_scatter_with_sequence_parallel() -> None:
    """Two gathers and two scatters each way, and the inputs gathered again for the weight gradients."""
    counts = _counts()
    assert [counts["tp", op] for op in ("all_gather", "reduce_scatter")] == [(160, 320), (160, 160)]


def test_full_recompute_repeats_the_forward_calls() -> None:
    """Backward runs the layers' forward communication once more."""
    assert _counts(recompute="full", sequence_parallel=False)["tp", "all_reduce"] == (160, 320)


def test_experts_exchange_twice_each_way() -> None:
    """Dispatch and combine, forward and backward, in the MoE layers alone."""
    assert _counts(model="deepseek-v3", ep=8, tp=4)["ep", "all_to_all"] == (116, 116)


def test_ring_passes_keys_and_values_on() -> None:
    """cp - 1 steps forward; keys, values and their gradients backward."""
    assert _counts(cp=4, tp=8)["cp", "permute"] == (3 * 80, 6 * 80)


@pytest.mark.parametrize("kept", ["attention", "qkv"])
def test_a_ring_that_keeps_attention_passes_nothing_again(kept: str) -> None:
    """Full recompute passes keys and values once more in backward, unless the attention output is kept."""
    again = 0 if kept == "attention" else 3 * 80
    assert _counts(cp=4, tp=8, recompute="full", saved_operators=kept)["cp", "permute"] == (3 * 80, 6 * 80 + again)


def test_gathered_context_sends_as_much_as_a_ring() -> None:
    """Keys and values of all cp pieces: gathered forward and backward, their gradients scattered once."""
    plan = {"cp": 4, "tp": 8, "sequence_length": 16384, "context_parallel_method": "all-gather"}
    counts = _counts(**plan)
    assert [counts["cp", op] for op in ("all_gather", "reduce_scatter")] == [(80, 80), (0, 80)]
    resolved, network = _plan(**plan)
    work = training_work(resolved)
    calls = microbatch_calls(resolved, work, network, sequence_parallel=True)
    whole = {c.op: c.message_bytes for c in calls if c.axis == "cp"}
    assert whole["all_gather"] == whole["reduce_scatter"] == 16384 * 2 * 1 * 128 * 2
    ring, ring_network = _plan(**{**plan, "context_parallel_method": "ring"})
    (passed,) = [
        c for c in microbatch_calls(ring, training_work(ring), ring_network, sequence_parallel=True) if c.axis == "cp"
    ]
    # a gather of cp pieces moves (cp - 1)/cp of its output through each rank, as the cp - 1 steps of a ring do
    assert whole["all_gather"] * 3 / 4 == passed.message_bytes * 3


def test_a_ring_of_rows_stays_on_the_rows() -> None:
    """tp 4 fills a chip and cp 4 a row: the pieces travel along x, the tensor-parallel traffic on no link."""
    result = estimate(Scenario(tp=4, cp=4, sequence_length=16384))
    fabric, loads = result.network.fabric, result.link_load.by_axis
    ahead = (fabric.link_axis == 0) & (fabric.link_sign > 0)
    assert loads["cp"][ahead].min() > 0
    assert loads["cp"][fabric.link_axis != 0].max() == 0
    assert loads["tp"].max() == 0


def test_payloads() -> None:
    """Activations of a microbatch in 16 bits; KV shards; stage boundaries split by sequence parallelism."""
    resolved, network = _plan(cp=2, tp=8, pp=2, sequence_length=8192, microbatch_size=2)
    work = training_work(resolved)
    calls = {(c.axis, c.op): c.message_bytes for c in microbatch_calls(resolved, work, network, sequence_parallel=True)}
    tokens = 2 * 8192 / 2
    assert calls["tp", "all_gather"] == tokens * 8192 * 2
    assert calls["cp", "permute"] == tokens * 2 * 1 * 128 * 2
    assert stage_transfer(resolved, work, network).message_bytes == tokens / 8 * 8192 * 2
    assert stage_transfer(resolved, work, network).count == 2
