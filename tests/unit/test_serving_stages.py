"""Serving on pipeline stages, with experts in small batches, chunks and windows: what a rank does, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trn2model.model.estimate import ServingEstimate, estimate
from trn2model.model.layers import layer_operators
from trn2model.model.serving.passes import decode_work
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario
from trn2model.units import to_si

LARGE: dict[str, Any] = {"model": "llama-3.1-405b", "tp": 32, "dp": 1, "profile": "ideal"}


def serve(**values: Any) -> ServingEstimate:
    return estimate(Scenario(**values), "serve")


@pytest.mark.parametrize("pp", [2, 3, 7, 8])
def test_a_long_pipeline_serves_many_groups_at_once(pp: int) -> None:
    """A stage is never idle: the slowest one, with its share of the layers, sets the pace."""
    result = serve(**LARGE, pp=pp, concurrency=64 * pp)
    one = serve(**LARGE, pp=1, concurrency=64)
    pace = result.tpot / pp  # a group leaves the pipeline
    layers = -(-126 // pp) / 126
    assert pace == pytest.approx(layers * one.decode.time, rel=0.04)
    assert result.prefill.stage_time == pytest.approx(result.prefill.time * layers, rel=0.04)
    assert result.hbm_bandwidth_utilization <= 1.0


def test_stages_raise_throughput_and_leave_a_lone_request_alone() -> None:
    rates = [serve(**LARGE, pp=pp, concurrency=512).output_tokens_per_s for pp in (1, 2, 4)]
    assert rates[1] > 1.5 * rates[0]
    assert rates[2] > 1.5 * rates[1]
    lone = [serve(**LARGE, pp=pp, concurrency=1) for pp in (1, 4)]
    assert lone[1].tpot == pytest.approx(lone[0].tpot, rel=0.01)
    assert lone[1].hbm_bandwidth_utilization == pytest.approx(lone[0].hbm_bandwidth_utilization / 4, rel=0.05)


def test_uneven_stages_make_groups_wait_for_the_slowest() -> None:
    uneven = serve(**LARGE, pp=8, concurrency=512)
    parts = uneven.time["decode"]
    assert parts["wait"] > 0.0
    assert sum(parts.values()) == pytest.approx(8 * uneven.decode.stage_time, rel=1e-12)
    assert serve(**LARGE, pp=8, concurrency=1).time["decode"]["wait"] == 0.0


@pytest.mark.parametrize(("model", "tp", "ep"), [("mixtral-8x7b", 4, 8), ("deepseek-v3", 32, 8)])
def test_a_lone_request_reads_the_experts_it_chose(model: str, tp: int, ep: int) -> None:
    resolved = resolve(Scenario(model=model, tp=tp, ep=ep, concurrency=1, profile="ideal"), "serve")
    work = decode_work(resolved, 1.0, 1.0, 1000.0)
    layer = resolved.model.layer_kinds[-1]
    (expert,) = (o for o in layer_operators(layer, resolved.model, work) if o.name == "expert_down")
    assert expert.num_gemms == 1.0  # of its chosen experts a rank holds one at the most, spread evenly
    spread = layer_operators(layer, resolved.model, replace(work, ep=1.0))
    (whole,) = (o for o in spread if o.name == "expert_down")
    assert whole.num_gemms == pytest.approx(layer.feed_forward.experts_per_token)  # type: ignore[union-attr]


def test_a_lone_prompt_fills_the_expert_ranks_of_a_static_graph_alone() -> None:
    plan: dict[str, Any] = {"model": "mixtral-8x7b", "tp": 1, "ep": 8, "concurrency": 8, "profile": "ideal"}
    static, dynamic = (
        serve(system=system, **plan).prefill.operators.names for system in ("trn2.48xlarge", "p5.48xlarge")
    )
    assert static == dynamic
    counts = {}
    for system in ("trn2.48xlarge", "p5.48xlarge"):
        one = serve(system=system, **plan)
        row = one.prefill.operators.names.index("expert_down")
        counts[system] = float(one.prefill.operators.flop[row] * one.prefill.operator_count[row])
    assert counts["trn2.48xlarge"] == pytest.approx(8 * counts["p5.48xlarge"], rel=1e-9)


def test_a_chunk_longer_than_the_prompt_changes_nothing() -> None:
    for system, tokens in (("p5.48xlarge", 500), ("trn2.48xlarge", 500), ("trn2.48xlarge", 2048)):
        plan: dict[str, Any] = {"model": "llama-3.1-8b", "system": system, "tp": 8, "input_tokens": tokens}
        whole = serve(**plan)
        assert serve(**plan, prefill_chunk=8192).ttft == whole.ttft


def test_the_last_chunk_is_padded_by_static_graphs_alone() -> None:
    plan: dict[str, Any] = {"model": "llama-3.1-8b", "tp": 8, "input_tokens": 4097, "profile": "ideal"}
    padded = serve(system="trn2.48xlarge", **plan, prefill_chunk=2048)
    assert padded.ttft == pytest.approx(
        serve(system="trn2.48xlarge", **(plan | {"input_tokens": 6144}), prefill_chunk=2048).ttft, rel=1e-12
    )
    left = serve(system="p5.48xlarge", **plan, prefill_chunk=2048)
    assert left.ttft == pytest.approx(serve(system="p5.48xlarge", **plan).ttft, rel=0.1)


def test_windowed_layers_grow_with_the_prompt_and_not_with_its_square() -> None:
    """gpt-oss: half of the layers see 128 tokens; their attention takes as long per token at 16k as at 131k."""
    times = {}
    for tokens in (16_384, 131_072):
        one = serve(model="gpt-oss-120b", tp=8, input_tokens=tokens, profile="ideal")
        rows = [
            row
            for row, (name, block) in enumerate(
                zip(one.prefill.operators.names, one.prefill.operator_blocks, strict=True)
            )
            if name == "attention" and block == _windowed(one)
        ]
        assert len(rows) == 1
        times[tokens] = float(one.prefill.operators.time[rows[0]]) / tokens
    assert times[131_072] == pytest.approx(times[16_384], rel=0.05)


def _windowed(one: ServingEstimate) -> str:
    return next(layer.name for layer in one.resolved.model.layer_kinds if layer.attention.window)


def test_decode_works_in_hbm_too() -> None:
    """Rows of a step beyond those of the prompt need working space of their own."""
    plan: dict[str, Any] = {"model": "llama-3.1-8b", "tp": 8, "input_tokens": 16, "output_tokens": 16}
    few, many = (serve(**plan, concurrency=running).memory.parts for running in (16, 16_000))
    for part in ("buffers", "activations"):
        assert many[part] == pytest.approx(1000 * few[part], rel=1e-9)
    assert few["buffers"] == 2 * 16 * 4096 * 2
    assert many["buffers"] < to_si(1.0, "GiB")
