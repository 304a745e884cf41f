"""Time of gradient exchange by ZeRO group, against the same collectives played step by step on the right ranks."""

from __future__ import annotations

import pytest

from trn2model.model.estimate import estimate
from trn2model.simulate.collectives import replay
from trn2model.specs.profile import profile
from trn2model.specs.scenario import Scenario

#: Four instances over EFA, tp 8 inside two chips: eight replicas in each instance of 64 ranks.
PLAN = {"model": "llama-3.1-8b", "system": "trn2.48xlarge", "count": 4, "tp": 8, "profile": "achievable"}
GROUPS = {"whole": ((8, 32),), "inside": ((8, 8),), "across": ((64, 4),)}


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("zero_group", ["all", "domain", "instance"])
def test_each_exchange_takes_the_time_of_its_own_group(zero: int, zero_group: str) -> None:
    result = estimate(Scenario(**PLAN, zero=zero, zero_group=zero_group))  # type: ignore[arg-type]
    uses = [use for use in result.communication if use.axis == "dp"]
    assert {use.scope for use in uses} == ({"whole"} if zero_group == "all" else {"inside", "across"})
    for use in uses:
        constants = profile("achievable").links
        fabric, size = result.network.fabric, float(use.bytes)
        played = replay(fabric, use.op, GROUPS[use.scope], 256, message_bytes=size, constants=constants)
        assert use.link_time / use.count == pytest.approx(played.time, rel=1e-9), (use.op, use.scope)


@pytest.mark.parametrize(("zero_group", "inside", "across"), [("domain", 0.363, 1.240 / 4), ("instance", 0.208, 0.621)])
def test_sharding_on_four_ultraservers_pays_by_the_links_it_uses(zero_group: str, inside: float, across: float) -> None:
    """llama-3.1-70b: 9.3 GB scattered over 64 dp ranks take 0.52 s; less inside a domain or an instance.

    The shards are then reduced across: a domain leaves 1/8 of the gradients to each rank, an instance 1/2; an
    all-reduce takes twice the time of the reduce-scatter of the same bytes.
    """
    plan = {"model": "llama-3.1-70b", "system": "trn2-ultraserver", "count": 4, "tp": 32, "zero": 2}
    result = estimate(Scenario(**plan, zero_group=zero_group))  # type: ignore[arg-type]
    times = {(u.op, u.scope): float(u.link_time / u.count) for u in result.communication if u.axis == "dp"}
    assert times["reduce_scatter", "inside"] == pytest.approx(inside, rel=0.01)
    assert times["all_reduce", "across"] == pytest.approx(across, rel=0.01)


def test_sharding_inside_a_domain_beats_plain_zero_where_the_network_binds() -> None:
    """The gradients of llama-3.1-70b leave an UltraServer as shards, an eighth of what they were."""
    plan = {"model": "llama-3.1-70b", "system": "trn2-ultraserver", "count": 4, "tp": 32, "zero": 2}
    whole, domain = (estimate(Scenario(**plan, zero_group=g)) for g in ("all", "domain"))  # type: ignore[arg-type]
    assert domain.feasible
    assert whole.step_time > 1.03 * domain.step_time
