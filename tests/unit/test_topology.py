"""Links, levels and coordinates of the machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trn2model.errors import InvalidInputError, UnsupportedError
from trn2model.specs.catalog import system, system_names
from trn2model.specs.topology import SWITCH_AXIS, fabric


def test_instance_is_a_torus_of_sixteen_chips() -> None:
    net = fabric(system("trn2.48xlarge"), 1, 2)
    assert (net.shape, net.chips_per_domain, net.num_links // 2) == ((4, 4, 1), 16, 32)
    assert (net.ranks_per_chip, net.ranks_per_domain, net.num_ranks) == (4, 64, 64)
    assert set(net.link_bandwidth) == {128e9}
    assert np.bincount(net.link_source).tolist() == [4] * 16


def test_ultraserver_has_128_links_in_planes_and_64_along_z() -> None:
    net = fabric(system("trn2-ultraserver"), 1, 2)
    along_z = net.link_axis == 2
    assert (int((~along_z).sum()) // 2, int(along_z.sum()) // 2) == (128, 64)
    assert set(net.link_bandwidth[along_z]) == {64e9}
    assert set(net.link_bandwidth[~along_z]) == {128e9}
    assert net.num_ranks == 256
    assert fabric(system("trn2-ultraserver"), 1, 1).num_ranks == 512


@pytest.mark.parametrize("name", [name for name in system_names() if system(name).interconnect == "torus"])
def test_links_join_neighbours_both_ways(name: str) -> None:
    net = fabric(system(name), 1, 2)
    ends = set(zip(net.link_source.tolist(), net.link_target.tolist(), strict=True))
    assert len(ends) == net.num_links
    assert {(target, source) for source, target in ends} == ends
    apart = (net.coordinates[net.link_target] - net.coordinates[net.link_source]) % np.array(net.shape)
    step = np.where(net.link_sign == 1, 1, np.array(net.shape)[net.link_axis] - 1)
    assert (apart[np.arange(net.num_links), net.link_axis] == step).all()
    assert (np.count_nonzero(apart, axis=1) == 1).all()
    for link, (source, axis, sign) in enumerate(zip(net.link_source, net.link_axis, net.link_sign, strict=True)):
        assert net.link_slot[source, axis, 0 if sign == 1 else 1] == link


def test_chips_count_along_x_then_y_then_z() -> None:
    net = fabric(system("trn2-ultraserver"), 1, 2)
    x, y, z = net.coordinates.T
    assert (x + 4 * y + 16 * z).tolist() == list(range(64))


def test_a_ring_of_twelve_and_a_ring_of_two() -> None:
    ring = fabric(system("inf2.48xlarge"), 1, 1)
    assert (ring.shape, ring.num_links // 2) == ((12, 1, 1), 12)
    two = fabric(replace(system("inf2.48xlarge"), name="two", torus_shape=(2, 1, 1), num_chips=2), 1, 1)
    assert sorted(zip(two.link_source.tolist(), two.link_target.tolist(), strict=True)) == [(0, 1), (1, 0)]


def test_switch_has_a_port_each_way() -> None:
    net = fabric(system("p5.48xlarge"), 4, 2)
    assert (net.ranks_per_chip, net.num_ranks, net.num_links) == (1, 32, 16)
    assert set(net.link_axis) == {SWITCH_AXIS}
    assert net.link_target[:8].tolist() == [8] * 8
    assert net.link_source[8:].tolist() == [8] * 8
    assert set(net.link_bandwidth) == {450e9}


def test_domains_and_network() -> None:
    net = fabric(system("trn2.48xlarge"), 4, 2)
    assert (net.num_domains, net.num_ranks, net.nic_bandwidth) == (4, 256, 25e9)
    assert fabric(system("trn2-ultraserver"), 2, 2).nic_bandwidth == 25e9
    assert fabric(system("trn2.3xlarge"), 2, 2).num_links == 0


def test_the_same_arguments_give_the_same_fabric() -> None:
    assert fabric(system("trn2.48xlarge"), 2, 2) is fabric(system("trn2.48xlarge"), 2, 2)
    assert fabric(system("trn2.48xlarge"), 2, 2) is not fabric(system("trn2.48xlarge"), 2, 1)
    with pytest.raises(ValueError, match="read-only"):
        fabric(system("trn2.48xlarge"), 2, 2).link_bandwidth[0] = 1.0


def test_no_systems_and_no_network() -> None:
    with pytest.raises(InvalidInputError, match="count"):
        fabric(system("trn2.48xlarge"), 0, 2)
    alone = replace(system("trn2.48xlarge"), name="alone", nic_bandwidth=0.0)
    assert fabric(alone, 1, 2).num_domains == 1
    with pytest.raises(UnsupportedError, match="alone"):
        fabric(alone, 2, 2)
