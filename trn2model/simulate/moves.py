"""What the ranks of a group hold, and the moves of each algorithm that bring every chunk where it belongs.

Each generator yields the moves of a step and then delivers them. It raises ReplayError if a rank sends what it does
not hold, receives a chunk or adds a contribution twice, or does not end with what the operation promises. `chunk` is
a member's share: its input of a gather, its output of a reduce-scatter, what it sends to each member of an exchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trn2model.errors import Trn2ModelError
from trn2model.network.algorithms import directed_cycles
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


Moves = Iterator[list[Move]]


def ring_gather(group: Group, chunk: float) -> Moves:
    """All-gather around rings over the chips."""
    return _gather_along(group, ring_orders(group), chunk)


def line_gather(group: Group, chunk: float) -> Moves:
    """All-gather around a ring in rank order, both ways."""
    return _gather_along(group, [list(group.ranks), list(group.ranks)[::-1]], chunk)


def kangaring_gather(group: Group, chunk: float) -> Moves:
    """All-gather around rings of primaries, each of which copies what passes into its secondary."""
    rings = pair_rings(group)
    piece = chunk / len(rings)
    held = Held(group, len(rings))
    carried = {(k, pair): pair for k, ring in enumerate(rings) for pair in ring}
    for step in range(len(rings[0])):
        moves, arrivals = [], []
        for k, ring in enumerate(rings):
            for place, (first, second) in enumerate(ring):
                onward, load = ring[(place + 1) % len(ring)], carried[k, (first, second)]
                if step < len(ring) - 1:
                    moves.append(Move(first, onward[0], 2 * piece))
                    arrivals += [(first if step else member, onward[0], member, k) for member in load]
                if step == 0:
                    moves += [Move(first, second, piece, reads=0), Move(second, first, piece, reads=0)]
                    arrivals += [(first, second, first, k), (second, first, second, k)]
                else:
                    moves.append(Move(first, second, 2 * piece, reads=0.0 if step < len(ring) - 1 else 1.0))
                    arrivals += [(first, second, member, k) for member in load]
        carried = {
            (k, ring[(place + 1) % len(ring)]): carried[k, pair]
            for k, ring in enumerate(rings)
            for place, pair in enumerate(ring)
        }
        yield moves
        held.deliver(arrivals)
    held.check()


def mesh_gather(group: Group, chunk: float) -> Moves:
    """All-gather to the same core of every chip, then between the cores of each chip."""
    held, cells = Held(group, 1), group.cells
    if len(cells) > 1:
        pairs = [
            (a, b) for here in cells for there in cells if here is not there for a, b in zip(here, there, strict=True)
        ]
        yield [Move(a, b, chunk) for a, b in pairs]
        held.deliver([(a, b, a, 0) for a, b in pairs])
    yield from _share_on_chip(held, cells, chunk * len(cells))
    held.check()


def direct_gather(group: Group, chunk: float) -> Moves:
    """All-gather in one step from every rank to every other."""
    held = Held(group, 1)
    pairs = [(a, b) for a in group.ranks for b in group.ranks if a != b]
    yield [Move(a, b, chunk) for a, b in pairs]
    held.deliver([(a, b, a, 0) for a, b in pairs])
    held.check()


def cube_gather(group: Group, chunk: float) -> Moves:
    """All-gather by recursive doubling over the hypercube of chips, then between the cores of each chip."""
    held, step = Held(group, 1), 1
    for partner in cube_partners(group):
        arrivals = [(a, b, member, 0) for a, b in partner.items() for member in held.members(a)]
        yield [Move(a, b, step * chunk) for a, b in partner.items()]
        held.deliver(arrivals)
        step *= 2
    yield from _share_on_chip(held, group.cells, chunk * len(group.cells))
    held.check()


def doubling_gather(group: Group, chunk: float) -> Moves:
    """All-gather by recursive doubling in rank order."""
    held, distance = Held(group, 1), 1
    while distance < len(group.ranks):
        pairs = [(a, group.ranks[i ^ distance]) for i, a in enumerate(group.ranks)]
        arrivals = [(a, b, member, 0) for a, b in pairs for member in held.members(a)]
        yield [Move(a, b, distance * chunk) for a, b in pairs]
        held.deliver(arrivals)
        distance *= 2
    held.check()


def exchange(group: Group, chunk: float) -> Moves:
    """All-to-all in one step."""
    return iter([[Move(a, b, chunk) for a in group.ranks for b in group.ranks if a != b]])


def _gather_along(group: Group, orders: Sequence[Sequence[int]], chunk: float) -> Moves:
    held, size, piece = Held(group, len(orders)), len(group.ranks), chunk / len(orders)
    for step in range(size - 1):
        moves, arrivals = [], []
        for k, order in enumerate(orders):
            for place, rank in enumerate(order):
                onward, owner = order[(place + 1) % size], order[(place - step) % size]
                moves.append(Move(rank, onward, piece))
                arrivals.append((rank, onward, owner, k))
        yield moves
        held.deliver(arrivals)
    held.check()


def _share_on_chip(held: Held, cells: Sequence[Sequence[int]], share: float) -> Moves:
    """Copy what each core holds to the others of its chip; a read serves two copies."""
    others = len(cells[0]) - 1
    if others:
        pairs = [(a, b) for here in cells for a in here for b in here if a != b]
        arrivals = [(a, b, member, 0) for a, b in pairs for member in held.members(a)]
        yield [Move(a, b, share, reads=((others + 1) // 2) / others) for a, b in pairs]
        held.deliver(arrivals)


def ring_scatter(group: Group, chunk: float) -> Moves:
    """Reduce-scatter around rings over the chips."""
    return _scatter_along(group, ring_orders(group), chunk)


def line_scatter(group: Group, chunk: float) -> Moves:
    """Reduce-scatter around a ring in rank order, both ways."""
    return _scatter_along(group, [list(group.ranks), list(group.ranks)[::-1]], chunk)


def kangaring_scatter(group: Group, chunk: float) -> Moves:
    """Reduce-scatter around rings of primaries, each of which adds its own and its secondary's share."""
    rings = pair_rings(group)
    piece, length = chunk / len(rings), len(rings[0])
    sums = Sums(group, len(rings))
    for step in range(length):
        moves, arrivals = [], []
        for k, ring in enumerate(rings):
            for place, (first, second) in enumerate(ring):
                moves.append(Move(second, first, 2 * piece, reads=0, writes=0))
                last = step == length - 1
                owners, onward = ring[(place - 1 - step) % length], ring[(place + 1) % length][0]
                for owner in owners:
                    value = [*sums.take(first, owner, k), first, second]
                    arrivals.append((owner if last else onward, owner, k, value))
                if last:
                    moves.append(Move(first, first, piece, reads=6, writes=1))
                    moves.append(Move(first, second, piece, reads=0))
                else:
                    moves.append(Move(first, onward, 2 * piece, reads=3 if step else 2))
        yield moves
        sums.add(arrivals)
    sums.check()


def mesh_scatter(group: Group, chunk: float) -> Moves:
    """Reduce-scatter by sums of each chip, routed to their owner, who adds its own chip's."""
    sums, cells = Sums(group, 1), group.cells
    if len(cells) > 1:
        moves, arrivals = [], []
        for here in cells:
            for core, adder in enumerate(here):
                owners = [there[core] for there in cells if there is not here]
                moves += [Move(adder, owner, chunk, reads=len(here)) for owner in owners]
                moves += [Move(m, adder, chunk * len(owners), 0, 0) for m in here if m != adder]
                arrivals += [(owner, owner, 0, list(here)) for owner in owners]
        yield moves
        sums.add(arrivals)
    moves = [Move(a, b, chunk, 0, 0) for here in cells for a in here for b in here if a != b]
    reads = len(cells) - 1 + len(cells[0])
    yield moves + [Move(rank, rank, chunk, reads, 1) for rank in group.ranks]
    sums.add([(owner, owner, 0, list(here)) for here in cells for owner in here])
    sums.check()


def direct_scatter(group: Group, chunk: float) -> Moves:
    """Reduce-scatter in one step from every rank to every owner, who adds up."""
    sums = Sums(group, 1)
    yield [Move(a, b, chunk) for a in group.ranks for b in group.ranks if a != b]
    sums.add([(b, b, 0, [a]) for a in group.ranks for b in group.ranks if a != b])
    yield [Move(rank, rank, chunk, len(group.ranks), 1) for rank in group.ranks]
    sums.add([(rank, rank, 0, [rank]) for rank in group.ranks])
    sums.check()


def cube_scatter(group: Group, chunk: float) -> Moves:
    """Reduce-scatter between the cores of each chip, then by recursive halving over the hypercube of chips."""
    sums, cells, partners = Sums(group, 1), group.cells, cube_partners(group)
    share = chunk * len(cells)
    if len(cells[0]) > 1:
        moves = [Move(a, b, share, 0, 0) for here in cells for a in here for b in here if a != b]
        yield moves + [Move(rank, rank, share, len(cells[0]), 1) for rank in group.ranks]
    for here in cells:
        for core, rank in enumerate(here):
            sums.add([(rank, there[core], 0, list(here)) for there in cells])
    for index in reversed(range(len(partners))):
        partner = partners[index]
        moves, arrivals = [], []
        for rank, other in partner.items():
            owners = reach(other, partners[:index])
            moves.append(Move(rank, other, chunk * len(owners), reads=1, writes=2))
            arrivals += [(other, owner, 0, sums.take(rank, owner, 0)) for owner in owners]
        yield moves
        sums.add(arrivals)
    sums.check()


def halving_scatter(group: Group, chunk: float) -> Moves:
    """Reduce-scatter by recursive halving in rank order."""
    sums, distance = Sums(group, 1), len(group.ranks) // 2
    sums.add([(rank, owner, 0, [rank]) for rank in group.ranks for owner in group.ranks])
    while distance:
        moves, arrivals = [], []
        for i, rank in enumerate(group.ranks):
            other = i ^ distance
            owners = [m for j, m in enumerate(group.ranks) if j // distance == other // distance]
            moves.append(Move(rank, group.ranks[other], distance * chunk, writes=2))
            arrivals += [(group.ranks[other], owner, 0, sums.take(rank, owner, 0)) for owner in owners]
        yield moves
        sums.add(arrivals)
        distance //= 2
    sums.check()


def _scatter_along(group: Group, orders: Sequence[Sequence[int]], chunk: float) -> Moves:
    sums, size, piece = Sums(group, len(orders)), len(group.ranks), chunk / len(orders)
    for step in range(size - 1):
        moves, arrivals = [], []
        for k, order in enumerate(orders):
            for place, rank in enumerate(order):
                onward, owner = order[(place + 1) % size], order[(place - 1 - step) % size]
                moves.append(Move(rank, onward, piece, reads=2 if step else 1))
                arrivals.append((onward, owner, k, [*sums.take(rank, owner, k), rank]))
        yield moves
        sums.add(arrivals)
    yield [Move(rank, rank, chunk, reads=2) for rank in group.ranks]
    sums.add([(rank, rank, k, [rank]) for rank in group.ranks for k in range(len(orders))])
    sums.check()


def direct_reduce(group: Group, buffer: float) -> Moves:
    """All-reduce in one step: every rank writes its whole buffer to every other, two copies per read."""
    others = len(group.ranks) - 1
    reads = ((others + 1) // 2) / others
    yield [Move(a, b, buffer, reads=reads) for a in group.ranks for b in group.ranks if a != b]
    yield [Move(rank, rank, buffer, reads=len(group.ranks)) for rank in group.ranks]
