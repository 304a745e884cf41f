"""Loads and time of a set of moves, walked hop by hop over the links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trn2model.simulate.collective_state import Move
from trn2model.specs.profile import Constants
from trn2model.specs.topology import Fabric


@dataclass(frozen=True, slots=True, eq=False)
class StepLoads:
    """Bytes on the links of the first domain, and the time of the step."""

    links: NDArray[np.float64]
    time: float


class LinkClock:
    """Routes moves over one machine: x, then y, then z, the shortest way round, half each way on a tie."""

    def __init__(self, fabric: Fabric, constants: Constants) -> None:
        self.fabric, self.constants = fabric, constants
        ends = zip(fabric.link_source.tolist(), fabric.link_axis.tolist(), fabric.link_sign.tolist(), strict=True)
        self._leaving = {end: (link, int(fabric.link_target[link])) for link, end in enumerate(ends)}
        self._routes: dict[tuple[int, int], list[tuple[int, float]]] = {}

    def loads(self, moves: Sequence[Move]) -> StepLoads:
        """Time of moves that run at once: the latency of the slowest medium and the busiest resource."""
        fabric, constants = self.fabric, self.constants
        links: dict[tuple[int, int], float] = defaultdict(float)
        busy: dict[tuple[str, int], float] = defaultdict(float)
        latency = 0.0
        for move in moves:
            here, there = move.source // fabric.ranks_per_chip, move.target // fabric.ranks_per_chip
            busy["memory", here] += move.size * move.reads
            busy["memory", there] += move.size * move.writes
            if move.source == move.target:
                continue
            if here == there:
                busy["send", move.source] += move.size
                busy["receive", move.target] += move.size
                latency = max(latency, constants.chip_latency)
            elif here // fabric.chips_per_domain == there // fabric.chips_per_domain:
                domain = here // fabric.chips_per_domain
                for link, share in self.route(here % fabric.chips_per_domain, there % fabric.chips_per_domain):
                    links[domain, link] += share * move.size
                latency = max(latency, constants.link_latency)
            else:
                busy["upload", here] += move.size
                busy["download", there] += move.size
                latency = max(latency, constants.nic_latency)
        times = [load / self._rate(kind) for (kind, _), load in busy.items() if load]
        times += [load / (fabric.link_bandwidth[link] * constants.link_efficiency) for (_, link), load in links.items()]
        first = np.zeros(fabric.num_links)
        for (domain, link), load in links.items():
            first[link] += load if domain == 0 else 0.0
        return StepLoads(first, latency + max(times, default=0.0))

    def route(self, source: int, target: int) -> list[tuple[int, float]]:
        """Links from one chip of a domain to another, each with its share of the bytes."""
        if (source, target) not in self._routes:
            walk = self._switched if self.fabric.interconnect == "switch" else self._walked
            self._routes[source, target] = list(walk(source, target))
        return self._routes[source, target]

    def _switched(self, source: int, target: int) -> Iterator[tuple[int, float]]:
        ends = zip(self.fabric.link_source.tolist(), self.fabric.link_target.tolist(), strict=True)
        switch = self.fabric.chips_per_domain
        for link, end in enumerate(ends):
            if end in ((source, switch), (switch, target)):
                yield link, 1.0

    def _walked(self, source: int, target: int) -> Iterator[tuple[int, float]]:
        goal = self.fabric.coordinates[target].tolist()
        here = source
        for axis in range(3):
            walks = [self._walk(here, axis, sign, goal[axis]) for sign in (1, -1)]
            possible = [walk for walk in walks if walk]
            chosen = [walk for walk in possible if len(walk) == min(map(len, possible))]
            for walk in chosen:
                yield from ((link, 1.0 / len(chosen)) for link, _ in walk)
            here = chosen[0][-1][1] if chosen else here

    def _walk(self, chip: int, axis: int, sign: int, goal: int) -> list[tuple[int, int]] | None:
        """Links in one direction up to a coordinate; None where the links end before."""
        passed: list[tuple[int, int]] = []
        while int(self.fabric.coordinates[chip][axis]) != goal:
            if (chip, axis, sign) not in self._leaving:
                return None
            link, chip = self._leaving[chip, axis, sign]
            passed.append((link, chip))
        return passed

    def _rate(self, kind: str) -> float:
        fabric, constants = self.fabric, self.constants
        if kind == "memory":
            return fabric.hbm_bandwidth * constants.collective_hbm_efficiency
        if kind in {"send", "receive"}:
            return constants.chip_bandwidth * fabric.cores_per_rank
        return fabric.nic_bandwidth * constants.nic_efficiency
