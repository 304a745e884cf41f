"""Data-parallel traffic by ZeRO stage."""

from __future__ import annotations

import pytest

from trn2model.estimate import estimate
from trn2model.estimate.gradient_exchange import Windows, gradient_exchange
from trn2model.estimate.model_states import parameter_shares
from trn2model.estimate.network import plan_network
from trn2model.estimate.stages import stage_table
from trn2model.specs.optimizer import optimizer
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario


def _uses(zero: int) -> dict[str, tuple[float, float]]:
    result = estimate(Scenario(model="llama-3.1-8b", tp=8, zero=zero))
    return {use.op: (float(use.count), float(use.bytes)) for use in result.communication if use.axis == "dp"}


@pytest.mark.parametrize(
    ("zero", "ops"),
    [(0, {"all_reduce"}), (1, {"reduce_scatter", "all_gather"}), (2, {"reduce_scatter", "all_gather"})],
)
def test_one_exchange_a_step(zero: int, ops: set[str]) -> None:
    """fp32 gradients once; updated 16-bit weights once where they are sharded."""
    uses = _uses(zero)
    assert set(uses) == ops
    assert all(count == 1 for count, _ in uses.values())
    gradients = uses.get("all_reduce", uses.get("reduce_scatter"))
    assert gradients is not None
    assert gradients[1] == pytest.approx(4 * 8030261248 / 8, rel=1e-3)


def test_fsdp_exchanges_in_every_microbatch() -> None:
    """Weights gathered twice, gradients scattered once, 32 microbatches each."""
    uses = _uses(3)
    assert uses["all_gather"][0] == 2 * 32
    assert uses["reduce_scatter"][0] == 32


def test_windows_are_shared() -> None:
    """With nothing to hide behind all is exposed; with ample windows only the share that cannot overlap is."""
    resolved = resolve(Scenario(model="mixtral-8x7b", tp=8, ep=4))
    network, adam = plan_network(resolved), optimizer("adamw-fp32")
    shares = parameter_shares(resolved, stage_table(resolved.model, 1.0, 1.0))
    none = gradient_exchange(shares, network, adam, Windows(0.0, 0.0))
    ample = gradient_exchange(shares, network, adam, Windows(1e3, 1e3))
    assert {use.axis for use in none} == {"dp", "dp (experts)"}
    assert all(use.exposed_time == pytest.approx(use.link_time) for use in none)
    overlap = resolved.profile.constants.dp_overlap_fraction
    assert all(use.exposed_time == pytest.approx((1 - overlap) * use.link_time) for use in ample)
    budget = 1e-3
    tight = gradient_exchange(shares, network, adam, Windows(budget, budget))
    assert sum(use.link_time - use.exposed_time for use in tight) <= 2 * budget * (1 + 1e-9)
