"""Members of a group, what each of them holds, and the orders that the algorithms walk through them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trn2model.errors import Trn2ModelError
from trn2model.estimate.network.cycles import directed_cycles
from trn2model.specs.topology import Fabric


class ReplayError(Trn2ModelError):
    """A played collective lost, doubled or misplaced a chunk: the algorithm is wrong."""


@dataclass(frozen=True, slots=True)
class Move:
    """Bytes written by one rank to another, with HBM reads at the source and writes at the target per byte."""

    source: int
    target: int
    size: float
    reads: float = 1.0
    writes: float = 1.0


@dataclass(frozen=True, slots=True)
class Group:
    """Members in rank order, on a machine."""

    fabric: Fabric
    ranks: tuple[int, ...]

    @property
    def cells(self) -> list[list[int]]:
        """Members by chip."""
        chips: dict[int, list[int]] = {}
        for rank in sorted(self.ranks):
            chips.setdefault(rank // self.fabric.ranks_per_chip, []).append(rank)
        return [chips[chip] for chip in sorted(chips)]

    def places(self) -> list[list[int]]:
        """Positions of the group along each axis."""
        per_chip, chips = self.fabric.ranks_per_chip, self.fabric.chips_per_domain
        rows = [self.fabric.coordinates[rank // per_chip % chips] for rank in self.ranks]
        return [sorted({int(row[axis]) for row in rows}) for axis in range(3)]


class Held:
    """Chunks that each member of a gather holds, in pieces."""

    def __init__(self, group: Group, pieces: int) -> None:
        self.ranks, self.pieces = group.ranks, pieces
        self._held = {rank: {(rank, k) for k in range(pieces)} for rank in group.ranks}

    def members(self, rank: int) -> list[int]:
        """Members whose chunk a rank holds."""
        return [owner for owner, piece in self._held[rank] if piece == 0]

    def deliver(self, arrivals: Iterable[tuple[int, int, int, int]]) -> None:
        """Hand over pieces at the end of a step.

        Raises ReplayError (a source does not hold the piece, or the target has it already).
        """
        checked = list(arrivals)
        for source, _, owner, piece in checked:
            if (owner, piece) not in self._held[source]:
                message = f"rank {source} sends piece {piece} of rank {owner} before it has it"
                raise ReplayError(message)
        for _, target, owner, piece in checked:
            if (owner, piece) in self._held[target]:
                message = f"rank {target} receives piece {piece} of rank {owner} twice"
                raise ReplayError(message)
            self._held[target].add((owner, piece))

    def check(self) -> None:
        """Every member holds everything.

        Raises ReplayError (something is missing).
        """
        whole = {(owner, piece) for owner in self.ranks for piece in range(self.pieces)}
        if any(held != whole for held in self._held.values()):
            message = "a gather ended with chunks missing"
            raise ReplayError(message)


class Sums:
    """Partial sums of a reduction: for each rank, owner and piece, which members are in it."""

    def __init__(self, group: Group, pieces: int) -> None:
        self.ranks, self.pieces = group.ranks, pieces
        self._sums: dict[tuple[int, int, int], list[int]] = {}

    def take(self, rank: int, owner: int, piece: int) -> list[int]:
        """Partial sum that a rank hands on."""
        return self._sums.pop((rank, owner, piece), [])

    def add(self, arrivals: Iterable[tuple[int, int, int, list[int]]]) -> None:
        """Add contributions at the end of a step.

        Raises ReplayError (a member would count twice).
        """
        for rank, owner, piece, members in arrivals:
            present = self._sums.setdefault((rank, owner, piece), [])
            if set(present) & set(members) or len(set(members)) != len(members):
                message = f"rank {rank} adds a contribution to the sum of rank {owner} twice"
                raise ReplayError(message)
            present.extend(members)

    def check(self) -> None:
        """Every owner has the sum over all members, and nothing is left elsewhere.

        Raises ReplayError (a contribution is missing or was left behind).
        """
        whole = {(owner, owner, piece) for owner in self.ranks for piece in range(self.pieces)}
        complete = all(sorted(members) == sorted(self.ranks) for members in self._sums.values())
        if set(self._sums) != whole or not complete:
            message = "a reduction ended with contributions missing"
            raise ReplayError(message)


def ring_orders(group: Group) -> list[list[int]]:
    """Directed rings through all members, core by core and chip by chip."""
    cells = group.cells
    line = list(range(len(cells)))
    cycles = chip_cycles(group) or [line, line[::-1]]
    return [
        [rank for chip in cycle for rank in (cells[chip] if k % 2 == 0 else cells[chip][::-1])]
        for k, cycle in enumerate(cycles)
    ]


def pair_rings(group: Group) -> list[list[tuple[int, int]]]:
    """Directed rings of primaries, each with its secondary; the pair swaps roles from ring to ring."""
    cells = group.cells
    rings = []
    for k, cycle in enumerate(chip_cycles(group)):
        ring = []
        for chip in cycle:
            pairs = list(zip(cells[chip][::2], cells[chip][1::2], strict=True))
            ring += [pair if k % 2 == 0 else pair[::-1] for pair in (pairs if k % 2 == 0 else pairs[::-1])]
        rings.append(ring)
    return rings


def chip_cycles(group: Group) -> list[list[int]]:
    """Directed Hamiltonian cycles over the chips of a group, each step a link, no link in two of them.

    Raises ReplayError (a step of a cycle is no link, or two cycles share a link).
    """
    fabric, chips = group.fabric, [cell[0] // group.fabric.ranks_per_chip for cell in group.cells]
    line = list(range(len(chips)))
    if fabric.interconnect == "switch":
        return [line, line[::-1]]
    places = group.places()
    if any(place[-1] - place[0] != len(place) - 1 for place in places):
        return []
    sizes = tuple(len(place) for place in places)
    wraps = tuple(len(place) == extent for place, extent in zip(places, fabric.shape, strict=True))
    cycles = [cycle.tolist() for cycle in directed_cycles(sizes, wraps)]
    _check_cycles(fabric, [[chips[index] % fabric.chips_per_domain for index in cycle] for cycle in cycles])
    return cycles


def _check_cycles(fabric: Fabric, cycles: Sequence[Sequence[int]]) -> None:
    links = set(zip(fabric.link_source.tolist(), fabric.link_target.tolist(), strict=True))
    used = [(here, there) for cycle in cycles for here, there in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    if not set(used) <= links or (len(set(used)) < len(used) and len(cycles[0]) > 2):
        message = "a ring leaves the links or shares one with another ring"
        raise ReplayError(message)


def cube_partners(group: Group) -> list[dict[int, int]]:
    """Partner of every rank at each step of recursive doubling over the chips."""
    fabric, places, cells = group.fabric, group.places(), group.cells
    sizes = [len(place) for place in places]
    along_z: list[dict[int, int]] = []
    in_plane: list[dict[int, int]] = []
    for axis in range(3):
        code = [index ^ (index >> 1) for index in range(sizes[axis])]
        for bit in range(sizes[axis].bit_length() - 1):
            flips = [code.index(value ^ (1 << bit)) for value in code]
            partner = {index: _shifted(index, axis, flips, sizes) for index in range(len(cells))}
            (along_z if axis == 2 else in_plane).append(partner)
    steps = []
    for axes in (along_z, in_plane):
        for turn in range(len(axes)):
            step = {}
            for index, cell in enumerate(cells):
                for core, rank in enumerate(cell):
                    choice = (turn + rank % fabric.ranks_per_chip) % len(axes)
                    step[rank] = cells[axes[choice][index]][core]
            steps.append(step)
    return steps


def reach(rank: int, partners: Sequence[dict[int, int]]) -> list[int]:
    """Ranks that doubling steps would reach from one rank."""
    found = [rank]
    for partner in partners:
        found += [partner[member] for member in found]
    return found


def _shifted(index: int, axis: int, flips: Sequence[int], sizes: Sequence[int]) -> int:
    stride = 1
    for size in sizes[:axis]:
        stride *= size
    place = index // stride % sizes[axis]
    return index + (flips[place] - place) * stride
