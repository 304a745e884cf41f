"""Data-parallel traffic by ZeRO stage."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.model.calls import plan_network
from trn2model.model.estimate import estimate
from trn2model.model.stages import parameter_shares, stage_table
from trn2model.model.training.gradients import Windows, gradient_exchange
from trn2model.specs.numerics import optimizer
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario


def _uses(zero: int) -> dict[str, tuple[float, float]]:
    result = estimate(Scenario(model="llama-3.1-8b", tp=8, zero=zero))
    return {use.op: (float(use.count), float(use.bytes)) for use in result.communication if use.axis == "dp"}


@pytest.mark.parametrize(
    ("zero", "ops"),
    [(0, {"all_reduce"}), (1, {"reduce_scatter", "all_gather"})],
)
def test_one_exchange_a_step(zero: int, ops: set[str]) -> None:
    """fp32 gradients once; updated 16-bit weights once where they are sharded."""
    uses = _uses(zero)
    assert set(uses) == ops
    assert all(count == 1 for count, _ in uses.values())
    gradients = uses.get("all_reduce", uses.get("reduce_scatter"))
    assert gradients is not None
    assert gradients[1] == pytest.approx(4 * 8030261248 / 8, rel=1e-3)


def test_sharded_gradients_are_scattered_in_every_microbatch() -> None:
    """ZeRO 2 holds no whole gradients between microbatches; updated weights are gathered once."""
    uses = _uses(2)
    assert uses["reduce_scatter"][0] == 32
    assert uses["all_gather"][0] == 1


def test_fsdp_exchanges_in_every_microbatch() -> None:
    """Weights gathered twice, gradients scattered once, 32 microbatches each."""
    uses = _uses(3)
    assert uses["all_gather"][0] == 2 * 32
    assert uses["reduce_scatter"][0] == 32


def test_sharding_inside_an_instance_reduces_shards_across() -> None:
    """Hierarchical: scatter and gather inside, then an all-reduce of a shard between the instances."""
    plan = {"model": "llama-3.1-8b", "system": "trn2.48xlarge", "count": 4, "tp": 8, "zero": 2}
    whole, inside = (estimate(Scenario(**plan, zero_group=group)) for group in ("all", "domain"))  # type: ignore[arg-type]
    uses = {(use.op, use.scope): use for use in inside.communication if use.axis == "dp"}
    assert set(uses) == {("reduce_scatter", "inside"), ("all_gather", "inside"), ("all_reduce", "across")}
    replicas = 64 / 8  # ranks of an instance over tp
    scattered = uses["reduce_scatter", "inside"].bytes
    assert uses["all_reduce", "across"].bytes == pytest.approx(scattered / replicas, rel=1e-12)
    for part in ("gradients", "optimizer"):
        assert inside.memory.parts[part] == pytest.approx(4 * whole.memory.parts[part], rel=1e-12)
    assert inside.link_load.by_axis["dp"].sum() > 0


def test_an_instance_is_part_of_an_ultraserver() -> None:
    """On an UltraServer a domain holds all four instances, which are then joined by z links alone."""
    plan = {"model": "llama-3.1-8b", "tp": 8, "zero": 3}
    whole, domain, instance = (
        estimate(Scenario(**plan, zero_group=group))  # type: ignore[arg-type]
        for group in ("all", "domain", "instance")
    )
    assert domain.memory.parts["weights"] == whole.memory.parts["weights"]
    assert instance.memory.parts["weights"] == pytest.approx(4 * whole.memory.parts["weights"], rel=1e-12)
    fabric, loads = instance.network.fabric, instance.link_load.by_axis["dp"]
    assert loads[fabric.link_axis == 2].sum() < 0.1 * whole.link_load.by_axis["dp"][fabric.link_axis == 2].sum()


def test_gathers_hide_only_with_a_prefetch() -> None:
    plan = {"model": "llama-3.1-8b", "tp": 8, "zero": 3, "profile": "ideal"}
    none, one, four = (estimate(Scenario(**plan, fsdp_prefetch=depth)) for depth in (0, 1, 4))  # type: ignore[arg-type]
    gathers = [next(u for u in r.communication if u.op == "all_gather" and u.axis == "dp") for r in (none, one, four)]
    assert gathers[0].exposed_time == pytest.approx(gathers[0].link_time)
    assert gathers[1].exposed_time < 0.5 * gathers[1].link_time
    assert gathers[2].exposed_time == gathers[1].exposed_time
    held = [result.memory.parts["buffers"] for result in (none, one, four)]
    assert held[2] - held[1] == pytest.approx(3 * (held[1] - held[0]), rel=1e-9)


def test_one_replica_exchanges_nothing() -> None:
    """No rows that say nothing: gradients of one replica go nowhere, those of context pieces are still summed."""
    alone, pieces, batch = (
        estimate(Scenario(model="llama-3.1-8b", system="trn2.48xlarge", tp=8, dp=1, cp=cp))
        for cp in (1, 2, np.array([1, 2]))
    )
    assert {use.axis for use in alone.communication} == {"tp"}
    assert alone.time["dp_exposed"] == 0
    assert {use.axis for use in pieces.communication} == {"tp", "cp", "dp"}
    (row,) = (use for use in batch.communication if use.axis == "dp" and use.op == "reduce_scatter")
    assert np.asarray(row.link_time).tolist()[0] == 0
    assert np.asarray(row.link_time).tolist()[1] > 0


def test_windows_are_shared() -> None:
    """With nothing to hide behind all is exposed; with ample windows only the share that cannot overlap is."""
    resolved = resolve(Scenario(model="mixtral-8x7b", tp=8, ep=4))
    network, adam = plan_network(resolved), optimizer("adamw-fp32")
    shares = parameter_shares(resolved, stage_table(resolved.model, 1.0, 1.0))
    none = gradient_exchange(resolved, shares, network, optimizer=adam, windows=Windows(0.0, 0.0))
    ample = gradient_exchange(resolved, shares, network, optimizer=adam, windows=Windows(1e3, 1e3))
    assert {use.axis for use in none} == {"dp", "dp (experts)"}
    assert all(use.exposed_time == pytest.approx(use.link_time) for use in none)
    overlap = resolved.profile.compute.dp_overlap_fraction
    assert all(use.exposed_time == pytest.approx((1 - overlap) * use.link_time) for use in ample)
    budget = 1e-3
    tight = gradient_exchange(resolved, shares, network, optimizer=adam, windows=Windows(budget, budget))
    assert sum(use.link_time - use.exposed_time for use in tight) <= 2 * budget * (1 + 1e-9)
