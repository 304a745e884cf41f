"""Fabric of a machine or of several: directed links, coordinates of the chips, and the network between domains.

A domain is one rented system: a torus of chips (an instance, an UltraServer) or GPUs on one switch. Consecutive
ranks fill the logical cores of a chip, then chips along x, y and z, then the next domain. Domains are joined by
the network interfaces of their chips (EFA).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError, UnsupportedError
from trn2model.specs.hardware import Interconnect, System, logical_core

AXES: Final = ("x", "y", "z")
#: axis index of a link between a chip and the switch
SWITCH_AXIS: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Links and levels of `num_domains` equal domains; two fabrics are equal only if they are the same object.

    Links are directed and belong to one domain. Link i runs from chip `link_source[i]` to chip `link_target[i]`
    along axis `link_axis[i]` (0, 1, 2 are x, y, z) in direction `link_sign[i]`, and carries `link_bandwidth[i]`.
    On a switch every chip has a link to and one from the switch, which is node `chips_per_domain` (axis 3).
    `link_slot[chip, axis, side]` is the index of the link that leaves a chip upwards (side 0) or downwards
    (side 1), -1 where there is none; on a switch, axis 0 holds the link to the switch and the one from it.
    """

    system: str
    interconnect: Interconnect
    shape: tuple[int, int, int]
    ranks_per_chip: int
    cores_per_rank: int
    chips_per_domain: int
    num_domains: int
    coordinates: NDArray[np.int64]  # (chips, 3)
    link_source: NDArray[np.int64]
    link_target: NDArray[np.int64]
    link_axis: NDArray[np.int64]
    link_sign: NDArray[np.int64]
    link_bandwidth: NDArray[np.float64]  # one direction [B/s]
    link_slot: NDArray[np.int64]  # (chips, 3, 2)
    nic_bandwidth: float  # per chip, one direction [B/s]
    hbm_bandwidth: float  # per chip [B/s]

    @property
    def ranks_per_domain(self) -> int:
        """Number of ranks of a domain."""
        return self.chips_per_domain * self.ranks_per_chip

    @property
    def num_ranks(self) -> int:
        """Number of ranks of all domains."""
        return self.num_domains * self.ranks_per_domain

    @property
    def num_links(self) -> int:
        """Number of directed links of a domain."""
        return len(self.link_source)


@lru_cache(maxsize=256)
def _fabric(key: tuple[str, int, int, int], parts: _Parts) -> Fabric:
    name, count, ranks, cores = key
    coordinates = _coordinates(parts.shape)
    links = _switch_links(parts) if parts.interconnect == "switch" else _torus_links(parts)
    slot = np.full((parts.num_chips, 3, 2), -1, dtype=np.int64)
    for index, link in enumerate(links):
        slot[link.owner, link.slot_axis, link.side] = index
    table = np.array([(k.source, k.target, k.axis, k.sign) for k in links], dtype=np.int64).reshape(-1, 4)
    arrays = (coordinates, *(np.ascontiguousarray(column) for column in table.T), slot)
    rates = np.array([k.bandwidth for k in links], dtype=np.float64)
    for array in (*arrays, rates):
        array.setflags(write=False)
    return Fabric(
        system=name,
        interconnect=parts.interconnect,
        shape=parts.shape,
        ranks_per_chip=ranks,
        cores_per_rank=cores,
        chips_per_domain=parts.num_chips,
        num_domains=count,
        coordinates=arrays[0],
        link_source=arrays[1],
        link_target=arrays[2],
        link_axis=arrays[3],
        link_sign=arrays[4],
        link_bandwidth=rates,
        link_slot=arrays[5],
        nic_bandwidth=parts.nic_bandwidth,
        hbm_bandwidth=parts.hbm_bandwidth,
    )


def fabric(system: System, count: int, lnc: int) -> Fabric:
    """Fabric of `count` systems.

    Raises InvalidInputError (count is below 1); UnsupportedError (several systems without a published network
    bandwidth).

    Examples
    --------
    >>> from trn2model.specs.catalog import system
    >>> fabric(system("trn2-ultraserver"), 1, 2).num_links // 2
    192
    """
    if count < 1:
        raise InvalidInputError("count", count, "an integer of at least 1", "give the number of systems")
    if count > 1 and not system.nic_bandwidth > 0:
        message = f"{system.name} has no published network bandwidth: more than one cannot be joined"
        raise UnsupportedError(message)
    core = logical_core(system, lnc)
    bandwidth = system.chip.hbm_bandwidth
    parts = _Parts(
        system.interconnect,
        system.torus_shape,
        system.num_chips,
        system.link_bandwidth,
        system.nic_bandwidth,
        bandwidth,
    )
    return _fabric((system.name, int(count), core.ranks_per_chip, core.cores_per_rank), parts)


@dataclass(frozen=True, slots=True)
class _Parts:
    interconnect: Interconnect
    shape: tuple[int, int, int]
    num_chips: int
    link_bandwidth: tuple[float, float, float]
    nic_bandwidth: float
    hbm_bandwidth: float


@dataclass(frozen=True, slots=True)
class _Link:
    source: int
    target: int
    axis: int
    sign: int
    bandwidth: float
    owner: int
    slot_axis: int
    side: int


def _coordinates(shape: tuple[int, int, int]) -> NDArray[np.int64]:
    x, y, z = shape
    chip = np.arange(x * y * z, dtype=np.int64)
    return np.stack([chip % x, chip // x % y, chip // (x * y)], axis=1)


def _torus_links(parts: _Parts) -> list[_Link]:
    shape = parts.shape
    strides = (1, shape[0], shape[0] * shape[1])
    links = []
    for axis in range(3):
        size = shape[axis]
        for chip in range(parts.num_chips):
            position = chip // strides[axis] % size
            for side, sign in enumerate((1, -1)):
                if size == 1 or (size == 2 and (position == 0) != (sign == 1)):
                    continue  # a ring of two is one cable: up from 0, down from 1
                target = chip + ((position + sign) % size - position) * strides[axis]
                links.append(_Link(chip, target, axis, sign, parts.link_bandwidth[axis], chip, axis, side))
    return links


def _switch_links(parts: _Parts) -> list[_Link]:
    port, switch = parts.link_bandwidth[0], parts.num_chips
    up = [_Link(chip, switch, SWITCH_AXIS, 1, port, chip, 0, 0) for chip in range(parts.num_chips)]
    down = [_Link(switch, chip, SWITCH_AXIS, -1, port, chip, 0, 1) for chip in range(parts.num_chips)]
    return up + down
