"""Reductions played on one group: every step moves chunks between ranks and keeps account of them.

Each generator yields the moves of a step and then delivers them. It raises ReplayError if a rank adds a contribution
twice, or does not end with what the operation promises. `chunk` is a member's share: its output of a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trn2model.simulate.collective_state import Group, Move, Sums, cube_partners, pair_rings, reach, ring_orders

Moves = Iterator[list[Move]]


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


def network_scatter(group: Group, chunk: float) -> Moves:
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
