"""Training estimate: parts sum to the whole, FLOP agree with the closed form, switches do what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trn2model.errors import UnsupportedError
from trn2model.model.estimate import estimate
from trn2model.specs.scenario import Scenario
from trn2model.units import GIB

DENSE = Scenario(model="llama-3.1-8b", system="trn2.48xlarge", tp=8, global_batch_size=64)
PLANS: list[dict[str, Any]] = [
    {},
    {"pp": 4, "tp": 8},
    {"pp": 4, "tp": 8, "interleave": 2},
    {"cp": 4, "tp": 8, "sequence_length": 32768},
    {"zero": 3, "tp": 4},
    {"zero": 0, "recompute": "full", "sequence_parallel": False},
    {"model": "mixtral-8x7b", "ep": 8, "tp": 8},
    {"model": "deepseek-v3", "ep": 16, "tp": 4, "pp": 4},
    {"model": "gpt-oss-120b", "ep": 4, "tp": 8},
    {"system": "p5.48xlarge", "count": 4},
    {"precision": "fp8", "sparsity": "4:16", "transposable_mask": True},
    {"optimizer": "adamw-bf16-sr", "attention_kernel": "naive", "recompute": "selective"},
]


@pytest.mark.parametrize("plan", PLANS)
def test_parts_sum_to_the_whole(plan: dict[str, Any]) -> None:
    """Step time and memory are the sums of their parts, and nothing is negative."""
    result = estimate(Scenario(**plan))
    assert sum(result.time.values()) == pytest.approx(result.step_time, rel=1e-9)
    assert sum(result.memory.parts.values()) == pytest.approx(result.memory.used_bytes, rel=1e-9)
    assert min(*result.time.values(), *result.memory.parts.values()) >= 0
    exposed = sum(use.exposed_time for use in result.communication)
    assert exposed == pytest.approx(sum(v for k, v in result.time.items() if k.endswith("_exposed")), rel=1e-9)
    assert all(use.exposed_time <= use.link_time * (1 + 1e-12) for use in result.communication)
    assert 0 < result.mfu < result.hfu * (1 + 1e-9) < 1


@pytest.mark.parametrize("plan", PLANS)
def test_operators_of_the_step_add_up_to_the_forward_flop(plan: dict[str, Any]) -> None:
    """Executed forward FLOP over all ranks equal the closed form, up to replicated routers and KV heads."""
    result = estimate(Scenario(**{**plan, "attention_kernel": "flash"}))
    resolved = result.resolved
    stages = resolved.plan.pp
    per_stage = (result.operators.flop * result.operator_count).sum() * resolved.plan.num_ranks
    low, high = (1.0, 1.35) if stages > 1 or resolved.plan.cp > 1 else (1.0, 1.08)
    assert low - 1e-9 <= per_stage / result.forward_flop <= high


def test_dense_forward_flop_are_exact() -> None:
    """One stage, no replication: operators and closed form agree to rounding."""
    result = estimate(Scenario(model="llama-2-7b", system="trn2.48xlarge", tp=8, global_batch_size=64))
    executed = float((result.operators.flop * result.operator_count).sum() * result.resolved.plan.num_ranks)
    assert executed == pytest.approx(result.forward_flop, rel=1e-12)


def test_ideal_is_never_slower() -> None:
    """Published peaks bound what kernels achieve, on every plan."""
    for plan in PLANS:
        ideal = estimate(Scenario(**{**plan, "profile": "ideal"}))
        real = estimate(Scenario(**{**plan, "profile": "achievable"}))
        assert ideal.step_time < real.step_time


def test_sparsity_gains_within_the_published_cap() -> None:
    """4:16 in bf16: forward GEMM time falls by at most 4 and by the docs' peak; stored weights by 0.625/2."""
    dense, sparse = (_gemm(Scenario(sparsity=pattern, profile="ideal")) for pattern in ("dense", "4:16"))
    assert dense[0] / sparse[0] == pytest.approx(2563 / 667, rel=1e-9)
    assert dense[0] / sparse[0] <= 4
    assert sparse[1] / dense[1] == pytest.approx(0.625 / 2, rel=2e-3)


def test_fp8_gains_nothing_from_half_density_in_the_docs() -> None:
    """Sparse passes lose the double contraction: fp8 4:8 equals fp8 dense; 4:16 gains 2,563/1,299."""
    time = {p: _gemm(Scenario(precision="fp8", sparsity=p, profile="ideal"))[0] for p in ("dense", "4:8", "4:16")}
    assert time["4:8"] == pytest.approx(time["dense"], rel=1e-12)
    assert time["dense"] / time["4:16"] == pytest.approx(2563 / 1299, rel=1e-9)
    launch = _gemm(Scenario(precision="fp8", sparsity="4:16", profile="ideal", peak_basis="launch"))[0]
    assert time["dense"] / launch == pytest.approx(5200 / 1299, rel=1e-3)


def test_backward_gains_only_with_a_transposable_mask() -> None:
    """The weight gradient stays dense; the input gradient is sparse only where the mask allows it."""
    plain, sparse, both = (
        estimate(Scenario(profile="ideal", **change))
        for change in ({}, {"sparsity": "4:16"}, {"sparsity": "4:16", "transposable_mask": True})
    )
    assert sparse.time["backward"] == pytest.approx(plain.time["backward"], rel=1e-9)
    assert both.time["backward"] < sparse.time["backward"]
    assert both.time["forward"] == pytest.approx(sparse.time["forward"], rel=1e-9)


def test_the_json_form_names_algorithms_and_holds_the_run() -> None:
    """Names, not codes, for a single plan; the run of the scenario's tokens beside the step."""
    document = estimate(Scenario(tp=8, pp=4)).to_dict()
    assert {use["axis"] for use in document["communication"]} == {"tp", "pp", "dp"}
    assert all(isinstance(use["algorithm"], str) for use in document["communication"])
    assert document["run"]["tokens"] == 1e12
    assert 0 < document["run"]["goodput"] < 1
    assert not {"stage_times", "stage_memory", "network"} & document.keys()


def test_missing_rates_raise() -> None:
    """No published rate: nothing is extrapolated."""
    changes: list[dict[str, Any]] = [
        {"system": "p4de.24xlarge", "precision": "fp8"},
        {"system": "trn1.32xlarge", "sparsity": "4:16"},
    ]
    for change in changes:
        with pytest.raises(UnsupportedError):
            estimate(Scenario(model="llama-3.1-8b", **change))


def test_capacity_follows_the_logical_core() -> None:
    """24 GiB at LNC 2, 12 at LNC 1, 80 GB on an H100."""
    assert estimate(DENSE).memory.capacity_bytes == 24 * GIB
    assert estimate(Scenario(model="llama-3.1-8b", lnc=1)).memory.capacity_bytes == 12 * GIB
    assert estimate(Scenario(model="llama-3.1-8b", system="p5.48xlarge")).memory.capacity_bytes == 80e9


def test_batch_rows_equal_single_calls() -> None:
    """The same formula body serves one plan and many."""
    tp, pp, cp = np.array([8, 16, 32, 8]), np.array([4, 2, 1, 1]), np.array([1, 1, 1, 4])
    mb = np.array([1, 2, 1, 1])
    batch = estimate(Scenario(tp=tp, pp=pp, cp=cp, microbatch_size=mb))
    for i in range(4):
        single = estimate(Scenario(tp=int(tp[i]), pp=int(pp[i]), cp=int(cp[i]), microbatch_size=int(mb[i])))
        for name in ("step_time", "mfu", "hfu", "tokens_per_s", "hbm_bandwidth_utilization", "bubble_fraction"):
            assert np.asarray(getattr(batch, name))[i] == pytest.approx(getattr(single, name), rel=1e-12)
        for part, value in single.time.items():
            assert np.asarray(batch.time[part])[i] == pytest.approx(value, rel=1e-12, abs=1e-15)
        for part, value in single.memory.parts.items():
            assert np.asarray(batch.memory.parts[part])[i] == pytest.approx(value, rel=1e-12)


def _gemm(scenario: Scenario) -> tuple[float, float]:
    """Tensor time of a layer's weight GEMMs, and HBM bytes of its stored weights."""
    result = estimate(scenario)
    names = ("qkv", "output", "gate_up", "down")
    rows = [i for i, name in enumerate(result.operators.names) if name in names]
    layers = result.memory.parts["weights"] - _ends(result)
    return float(result.operators.tensor_time[rows].sum()), float(layers)


def _ends(result: object) -> float:
    """Weights of embedding and head of the one stage, which stay dense."""
    resolved = result.resolved  # type: ignore[attr-defined]
    width = 1.0 if resolved.weight_dtype == "fp8" else 2.0
    return float(2.0 * resolved.model.vocab_size * resolved.model.hidden_size * width / resolved.plan.tp)


def test_sparse_adjusted_mfu_stands_beside_the_dense_one() -> None:
    """Equal when dense; with a pattern it is the share of the step at the peaks the matmuls may use, so below 1."""
    dense, sparse = (
        estimate(Scenario(model="llama-3.1-8b", tp=8, sparsity=s, profile="ideal")) for s in ("dense", "4:16")
    )
    assert dense.mfu_sparse_adjusted == pytest.approx(dense.mfu, rel=1e-12)
    assert sparse.mfu_sparse_adjusted < 1
    assert sparse.mfu > dense.mfu
    assert sparse.mfu_sparse_adjusted < sparse.mfu
