"""Loads of a collective's steps, and plans made of them: what the cost of a collective is priced from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.estimate.network.routing import Step, step_load
from trn2model.specs.topology import Fabric

Floats = NDArray[np.float64]

#: domains whose links are kept apart where groups load domains unevenly
KEPT_DOMAINS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Loads of consecutive steps, per byte of the message; one entry per kind of step.

    `links` has shape (steps, domains, links): one row where all domains are loaded alike; else the first ones, and
    where there are more a last row with the largest load of each link over all. The flags tell which latency a step
    pays: the largest of those it uses.
    """

    count: Floats
    links: Floats
    chip: Floats
    hbm: Floats
    nic: Floats
    uses: NDArray[np.bool_]  # (steps, 3): chip, link, network


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One way of running a collective: stages and the share of the message that each works on."""

    algorithm: str
    detail: str
    stages: tuple[tuple[Stage, float], ...]


def stage(fabric: Fabric, listed: Sequence[Step], ranks_on_chip: int) -> Stage:
    """Loads of a list of steps."""
    kept = [step for step in listed if step.count > 0]
    loads = [step_load(fabric, step, ranks_on_chip) for step in kept]
    domains = min(max(load.links.shape[0] for load in loads), KEPT_DOMAINS + 1)
    links = np.zeros((len(loads), domains, fabric.num_links))
    for row, load in zip(links, loads, strict=True):
        first = load.links[:KEPT_DOMAINS]
        row[: len(first)] = first
        if len(load.links) > KEPT_DOMAINS:
            row[KEPT_DOMAINS] = load.links.max(axis=0)
    return Stage(
        count=np.array([step.count for step in kept]),
        links=links,
        chip=np.array([load.chip for load in loads]),
        hbm=np.array([load.hbm for load in loads]),
        nic=np.array([load.nic for load in loads]),
        uses=np.array([(load.chip > 0, load.links.any(), load.nic > 0) for load in loads], dtype=bool),
    )


def nested(
    op: str, inner_of: Callable[[str], Sequence[Plan]], outer_of: Callable[[str], Sequence[Plan]], inner_size: int
) -> list[Plan]:
    """Plans on two levels: the outer one on what each inner rank holds, first for a gather, last for a scatter."""
    part = 1.0 if op == "all_to_all" else 1.0 / inner_size
    found = []
    gathers = {plan.detail: plan for plan in inner_of("all_gather")} if op == "all_reduce" else {}
    for inner in inner_of("reduce_scatter" if op == "all_reduce" else op):
        for outer in outer_of(op):
            between = tuple((loads, share * part) for loads, share in outer.stages)
            stages = between + inner.stages if op == "all_gather" else inner.stages + between
            if op == "all_reduce":
                stages += gathers[inner.detail].stages
            found.append(Plan("hierarchical", f"{inner.detail} + {outer.detail}", stages))
    return found
