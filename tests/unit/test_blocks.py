"""One assembly of a pass: what overlaps in a block, what of its calls stays exposed, and training beside serving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trn2model.model.blocks import block_times, communication_uses, exposed_times, link_times, model_blocks, rank_table
from trn2model.model.calls import Call, microbatch_calls, plan_network
from trn2model.model.estimate import estimate
from trn2model.model.layers import sparse_operators
from trn2model.model.serving.passes import prefill_work
from trn2model.model.training.compute import training_compute, training_work
from trn2model.network.cost import CollectiveCost
from trn2model.specs.plan import Workload
from trn2model.specs.resolve import Resolved, resolve
from trn2model.specs.scenario import Scenario

PROFILES = ("ideal", "achievable")


def _resolved(overlap: float, workload: Workload = "train", **fields: Any) -> Resolved:
    """Scenario under `ideal` with another share of overlap between engines."""
    resolved = resolve(Scenario(**({"profile": "ideal"} | fields)), workload)
    return replace(resolved, profile=resolved.profile.with_values({"engine_overlap_fraction": overlap}))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-120b", "deepseek-v3"])
def test_a_layer_costs_a_prompt_what_it_costs_a_microbatch(model: str, profile: str) -> None:
    """Forward of training and prefill of the same tokens are the same pass, exposed ring of their context included."""
    fields: dict[str, Any] = {"model": model, "tp": 8, "cp": 4, "profile": profile, "sequence_length": 4096}
    fields |= {"system": "p5.48xlarge", "count": 8, "input_tokens": 4096}
    train, serve = (resolve(Scenario(**fields), workload) for workload in ("train", "serve"))
    serve = replace(serve, profile=train.profile)
    microbatch = training_work(train)
    prompt = replace(prefill_work(serve, 4096.0, 4096.0), routed_tokens=microbatch.routed_tokens)
    kinds = len(train.model.layer_kinds)
    blocks = model_blocks(serve.model, prompt, prompt.tokens, loss=True)
    table = rank_table(serve, prompt, blocks.operators, sparse_operators(blocks.operators, "dense"))
    (busy,) = block_times(serve, blocks, table)
    compute = training_compute(train, microbatch)
    assert busy[:kinds] == pytest.approx(compute.forward[:kinds], rel=1e-12)
    exposed = []
    for resolved, work, time in ((train, microbatch, compute.forward), (serve, prompt, busy)):
        calls = microbatch_calls(resolved, work, plan_network(resolved), sequence_parallel=True)
        links = {axis: link[0] for axis, link in link_times(calls, time.shape, ("forward",)).items()}
        attention = blocks.attention_sums(table.time)
        exposed.append(exposed_times(resolved, work, links, busy=time, attention=attention))
    for axis, waiting in exposed[0].items():
        assert exposed[1][axis][:kinds] == pytest.approx(waiting[:kinds], rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_engines_that_overlap_hide_behind_the_busiest(fraction: float) -> None:
    resolved = _resolved(fraction)
    work = training_work(resolved)
    blocks = model_blocks(resolved.model, work, work.tokens, loss=False)
    table = rank_table(resolved, work, blocks.operators, sparse_operators(blocks.operators, "dense"))
    (time,) = block_times(resolved, blocks, table)
    engines = [table.tensor_time, table.vector_time, table.scalar_time, table.hbm_time]
    busiest = np.max([blocks.sums(engine) for engine in engines], axis=0)
    whole = blocks.sums(table.time)
    assert np.all(busiest <= whole)
    assert busiest[0] < 0.99 * whole[0]
    assert time == pytest.approx((1.0 - fraction) * whole + fraction * busiest, rel=1e-12)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_served_layers_of_the_ideal_take_as_long_as_their_busiest_engine(phase: str) -> None:
    """A bound: no arrangement of a layer's operators ends before its busiest engine, and `ideal` claims no more."""
    result = estimate(Scenario(model="llama-3.1-70b", profile="ideal"), "serve")
    one = getattr(result, phase)
    table, inner = one.operators, np.array([block not in ("embedding", "head") for block in one.operator_blocks])
    engines = [table.tensor_time, table.vector_time, table.scalar_time, table.hbm_time]
    layers = max(float((engine * one.operator_count)[inner].sum()) for engine in engines)
    parts = one.parts
    assert parts["gemm"] + parts["attention"] + parts["elementwise"] == pytest.approx(layers, rel=1e-12)
    assert sum(parts.values()) == pytest.approx(float(one.time), rel=1e-12)
    assert one.time < float((table.time * one.operator_count).sum()) + float(parts["tp"])


@pytest.mark.parametrize(("overlap", "hidden"), [(0.0, 3.0), (0.5, 5.5), (1.0, 8.0)])
def test_a_ring_hides_behind_the_pieces_it_has_and_where_engines_overlap_behind_the_rest(
    overlap: float, hidden: float
) -> None:
    """8 s of work, 4 of them attention on 4 ranks: three of four pieces hide the ring, or up to all of the work."""
    resolved = _resolved(overlap, tp=8, cp=4)
    work = training_work(resolved)
    link = {"tp": np.array([0.0]), "cp": np.array([10.0]), "ep": np.array([0.0])}
    exposed = exposed_times(resolved, work, link, busy=np.array([8.0]), attention=np.array([4.0]))
    assert link["cp"] - exposed["cp"] == pytest.approx(hidden, rel=1e-12)
    step = exposed_times(resolved, replace(work, decode=True), link, busy=np.array([8.0]), attention=np.array([4.0]))
    assert link["cp"] - step["cp"] == pytest.approx(8.0, rel=1e-12)  # a decode step has no ring: tp's share, here all


def test_what_one_axis_hides_behind_is_no_longer_free_for_the_next() -> None:
    resolved = _resolved(1.0, tp=8)
    link = {"tp": np.array([6.0]), "cp": np.array([0.0]), "ep": np.array([5.0])}
    exposed = exposed_times(resolved, training_work(resolved), link, busy=np.array([8.0]), attention=np.array([0.0]))
    assert (float(exposed["tp"][0]), float(exposed["ep"][0])) == (0.0, 3.0)


@pytest.mark.parametrize("profile", PROFILES)
def test_compute_hides_no_more_than_it_lasts(profile: str) -> None:
    resolved = resolve(Scenario(model="qwen3-235b-a22b", tp=16, cp=2, ep=2, sequence_length=32768, profile=profile))
    work = training_work(resolved)
    compute = training_compute(resolved, work)
    calls = microbatch_calls(resolved, work, plan_network(resolved), sequence_parallel=True)
    link = link_times(calls, compute.forward.shape, ("forward", "backward"))
    exposed = exposed_times(resolved, work, link, busy=compute.phases, attention=compute.attention)
    assert all(np.all((time >= 0) & (time <= link[axis])) for axis, time in exposed.items())
    assert np.all(sum(link[axis] - time for axis, time in exposed.items()) <= compute.phases + 1e-15)


def test_calls_share_the_exposed_time_of_their_axis_by_link_time() -> None:
    """Two kinds of calls take 2 and 6 s, 4 of the 8 exposed; a kind that never runs is left out."""
    cost = CollectiveCost(np.float64(2.0), np.array(0), np.float64(1.0), np.float64(0.0), np.float64(0.0))
    once = np.ones(1)
    calls = [Call("tp", op, 1.0, once, once, cost) for op in ("all_gather", "reduce_scatter", "all_reduce")]
    uses = communication_uses(list(zip(calls, (1.0, 3.0, 0.0), strict=True)), {"tp": 4.0})
    assert [(use.op, use.link_time, use.exposed_time) for use in uses] == [
        ("all_gather", 2.0, 1.0),
        ("reduce_scatter", 6.0, 3.0),
    ]
