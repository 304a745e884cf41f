"""Gathers and exchanges played on one group: every step moves chunks between ranks and keeps account of them.

Each generator yields the moves of a step and then delivers them. It raises ReplayError if a rank sends what it does
not hold or receives a chunk twice, or does
not end with what the operation promises. `chunk` is a member's share: its input of a gather, what it sends to each
member of an exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trn2model.simulate.collective_state import Group, Held, Move, cube_partners, pair_rings, ring_orders

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


def network_gather(group: Group, chunk: float) -> Moves:
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
