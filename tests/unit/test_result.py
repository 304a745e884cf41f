"""Results as JSON, violations as sentences, scalars as scalars."""

from __future__ import annotations

import json

import numpy as np
import pytest

from trn2model.model.estimate import estimate
from trn2model.model.feasibility import memory_violations
from trn2model.model.result import MemoryUse, Violation, assumptions, num_chips, rent, reserve_bytes, scalar, to_json
from trn2model.specs.plan import Workload
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario

PARTS = {
    "train": ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "reserve"),
    "serve": ("weights", "kv_cache", "activations", "logits", "buffers", "reserve"),
}


def test_json_of_both_workloads_round_trips() -> None:
    """Plain numbers, the names of the contract, nothing formatted."""
    for workload, names in (
        ("train", {"step_time", "mfu", "communication", "links", "violations", "step_time_range", "cost"}),
        ("serve", {"ttft", "tpot", "output_tokens_per_s", "max_concurrency", "kv_replication", "ttft_range"}),
    ):
        data = estimate(Scenario(), workload).to_dict()  # type: ignore[call-overload]
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert names | {"scenario", "feasible", "time", "memory", "assumptions"} <= set(data)


def test_json_of_odd_values() -> None:
    """Infinity and NaN become null, arrays lists, keys text."""
    assert to_json({1: [np.inf, np.int64(2)], "v": Violation("r", 1.0, 2.0, "B", "x")}) == {
        "1": [None, 2],
        "v": {"resource": "r", "demand": 1.0, "limit": 2.0, "unit": "B", "remedy": "x"},
    }


@pytest.mark.parametrize(("workload", "largest"), [(load, part) for load, parts in PARTS.items() for part in parts])
def test_the_remedy_names_the_largest_part(workload: Workload, largest: str) -> None:
    """Every part has its lever."""
    resolved = resolve(Scenario(), workload)
    parts = {part: (9.0 if part == largest else 1.0) for part in PARTS[workload]}
    (violation,) = memory_violations(MemoryUse(10.0, 16.0, parts), resolved)
    assert largest.replace("_", " ") in violation.remedy
    assert (violation.demand, violation.limit, violation.unit) == (16.0, 10.0, "B")
    assert memory_violations(MemoryUse(16.0, 16.0, parts), resolved) == ()


def test_rent_is_null_without_a_public_price() -> None:
    """Never 0: an UltraServer has no public price, four instances have."""
    ultraserver, instances = (
        resolve(Scenario(system=system, count=count))
        for system, count in (("trn2-ultraserver", 1), ("trn2.48xlarge", 4))
    )
    assert rent(ultraserver, 1.0).usd_per_hour is None
    assert rent(instances, 1e6).usd_per_hour == pytest.approx(4 * 35.7608)
    assert rent(instances, 1e6).usd_per_million_tokens == pytest.approx(4 * 35.7608 / 3600)
    assert any("price" in said for said in assumptions(ultraserver))
    assert num_chips(ultraserver) == num_chips(instances) == 64


def test_reserve_belongs_to_the_rank() -> None:
    """Half a GiB of each logical core."""
    assert reserve_bytes(resolve(Scenario())) == 2**29
    assert reserve_bytes(resolve(Scenario(lnc=1))) == 2**28


def test_scalars_are_python_values() -> None:
    """0-d arrays leave NumPy, batches stay."""
    assert type(scalar(np.float64(1.0))) is float
    assert type(scalar(np.array(True))) is bool
    assert scalar(np.ones(2)).shape == (2,)
