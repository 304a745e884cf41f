"""Link loads of a step: conserved bytes, and only on the links a group spans."""

from __future__ import annotations

import numpy as np
import pytest

from trn2model.model.estimate import estimate
from trn2model.network.loads import SPANNED, step_link_load
from trn2model.specs.scenario import Scenario


def test_axes_sum_to_the_total() -> None:
    """The total is the sum over axes, and utilization is bytes over rate and step."""
    result = estimate(Scenario(model="mixtral-8x7b", tp=8, ep=8))
    load = result.link_load
    assert np.sum(list(load.by_axis.values()), axis=0) == pytest.approx(load.total)
    rate = result.network.fabric.link_bandwidth
    assert load.utilization * rate * result.step_time == pytest.approx(load.total)
    assert set(load.by_axis) <= set(SPANNED)
    assert load.use.max_utilization == load.utilization.max()


def test_tensor_parallel_inside_an_instance_leaves_z_alone() -> None:
    """tp 32 fills half a plane; only the data-parallel groups cross the z links."""
    result = estimate(Scenario())
    z = result.network.fabric.link_axis == 2
    assert result.link_load.by_axis["tp"][z].sum() == 0
    assert result.link_load.by_axis["dp"][z].sum() > 0


def test_one_chip_has_no_links() -> None:
    """A trn2.3xlarge reports zero, not an error."""
    result = estimate(Scenario(model="llama-3.2-1b", system="trn2.3xlarge"))
    assert step_link_load(result.network, result.communication, result.step_time).use.max_utilization == 0
