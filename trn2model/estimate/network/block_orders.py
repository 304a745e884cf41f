"""Orders in which the algorithms walk through the groups of a block: rings, rings of pairs, hypercubes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.blocks import Block
from trn2model.estimate.network.cycles import directed_cycles
from trn2model.specs.topology import Fabric

#: axis that joins the instances of an UltraServer
_Z_AXIS = 2

Ranks = NDArray[np.int64]


def ring_orders(fabric: Fabric, block: Block) -> list[Ranks]:
    """Members of each group in the order of every directed ring: core by core, chip by chip."""
    forward = block.ranks.transpose(0, 2, 1)  # groups, chips, cores
    line = np.arange(block.num_chips)
    cycles = _cycles(fabric, block) or (line, line[::-1])
    groups = block.ranks.shape[0]
    orders = []
    for index, cycle in enumerate(cycles):
        cores = forward if index % 2 == 0 else forward[:, :, ::-1]
        orders.append(cores[:, cycle].reshape(groups, -1))
    return orders


def pair_rings(fabric: Fabric, block: Block) -> list[tuple[Ranks, Ranks]]:
    """Primary and secondary ranks in ring order for every directed cycle; a pair swaps roles from ring to ring."""
    whole_chips = block.num_local == fabric.ranks_per_chip and block.num_local % 2 == 0
    if not whole_chips or block.num_chips < 2:
        return []
    groups, local, chips = block.ranks.shape
    pairs = block.ranks.reshape(groups, local // 2, 2, chips).transpose(0, 3, 1, 2)
    rings = []
    for index, cycle in enumerate(_cycles(fabric, block)):
        order = pairs[:, cycle] if index % 2 == 0 else pairs[:, cycle][:, :, ::-1]
        flat, primary = order.reshape(groups, -1, 2), index % 2
        rings.append((flat[:, :, primary], flat[:, :, 1 - primary]))
    return rings


def cube_steps(fabric: Fabric, block: Block) -> list[list[tuple[Ranks, Ranks]]] | None:
    """Sources and partners of each step of recursive doubling over the chips as a hypercube.

    Notes
    -----
    A ring of four in Gray code is a square, so each step crosses one link. Between instances (z) goes first, while
    the chunks are small; among the other axes core l of a chip starts l axes further, so that all of them work.
    """
    if block.num_chips < 2 or any(size & (size - 1) for size in block.sizes):
        return None
    classes = _cube_axes(block)
    steps: list[list[tuple[Ranks, Ranks]]] = []
    for partners in classes:
        for turn in range(len(partners)):
            step = []
            for core in range(block.num_local):
                ranks = block.ranks[:, core]
                start = ranks[:, 0] % fabric.ranks_per_chip
                choice = np.stack(partners)[(turn + start) % len(partners)]
                step.append((ranks, np.take_along_axis(ranks, choice, axis=1)))
            steps.append(step)
    return steps


def _cycles(fabric: Fabric, block: Block) -> tuple[Ranks, ...]:
    if fabric.interconnect == "switch":
        line = np.arange(block.num_chips, dtype=np.int64)
        return (line, line[::-1])
    return directed_cycles(block.sizes, block.wraps) if block.contiguous else ()


def _cube_axes(block: Block) -> list[list[Ranks]]:
    """Partner of each chip along every dimension of the hypercube: between instances (z) first, then inside them."""
    found: tuple[list[Ranks], list[Ranks]] = ([], [])
    position, stride = np.arange(block.num_chips), 1
    for axis, size in enumerate(block.sizes):
        place = position // stride % size
        code = np.arange(size) ^ (np.arange(size) >> 1)
        back = np.argsort(code)
        for bit in range(size.bit_length() - 1):
            partner = back[code[place] ^ (1 << bit)]
            found[axis != _Z_AXIS].append(position + (partner - place) * stride)
        stride *= size
    return [partners for partners in found if partners]
