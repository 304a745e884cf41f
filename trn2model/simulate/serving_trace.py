"""What a serving queue did: requests and workers over time, and their summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trn2model.simulate.replica import DECODE, PREFILL, Segment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PERCENTILES: Final = (50, 90, 95, 99)


class StepFunction(NamedTuple):
    """A count that takes `value` from `time` on."""

    time: Floats
    value: Floats


@dataclass(frozen=True, slots=True)
class Timeline:
    """Segments of work in order of worker and time; `kind` holds codes into ``replica.SEGMENT_KINDS``.

    Where phases mix, a pass is followed by what its decode steps add to it.
    """

    worker: Ints
    kind: Ints
    start: Floats
    end: Floats
    batch: Ints


@dataclass(frozen=True, slots=True)
class ServingTrace:
    """What happened to every request, in order of arrival, and what every worker did.

    Workers are the replicas, after the prefill workers where there are any.
    """

    arrival: Floats
    input_tokens: Floats
    output_tokens: Floats
    start: Floats
    first_token: Floats
    finish: Floats
    worker: Ints
    timeline: Timeline
    num_workers: int

    @property
    def ttft(self) -> Floats:
        """Time from arrival to the first token of each request [s]."""
        return self.first_token - self.arrival

    @property
    def tpot(self) -> Floats:
        """Mean time between tokens after the first, NaN for requests of one token [s]."""
        gaps = self.output_tokens - 1.0
        return np.where(gaps > 0.0, (self.finish - self.first_token) / np.maximum(gaps, 1.0), np.nan)

    @property
    def e2e(self) -> Floats:
        """Time from arrival to the last token of each request [s]."""
        return self.finish - self.arrival

    @property
    def span(self) -> float:
        """Time from the first arrival to the last token [s]."""
        return float(self.finish.max() - self.arrival.min())

    @property
    def output_tokens_per_s(self) -> float:
        """Generated tokens over the run's length [token/s]."""
        return float(self.output_tokens.sum()) / self.span

    def percentiles(self) -> dict[str, dict[str, float]]:
        """Percentiles and means of the latencies."""
        return {
            name: _summary(values) for name, values in (("ttft", self.ttft), ("tpot", self.tpot), ("e2e", self.e2e))
        }

    def utilization(self) -> dict[str, float]:
        """Shares of the workers' time over the run."""
        length = self.timeline.end - self.timeline.start
        whole = self.num_workers * self.span
        prefill = float(length[self.timeline.kind == PREFILL].sum()) / whole
        decode = float(length[self.timeline.kind == DECODE].sum()) / whole
        return {"prefill": prefill, "decode": decode, "idle": max(1.0 - prefill - decode, 0.0)}

    def queue_length(self) -> StepFunction:
        """Requests that have arrived and not begun."""
        return _count(self.arrival, self.start)

    def number_in_system(self) -> StepFunction:
        """Requests that have arrived and not finished."""
        return _count(self.arrival, self.finish)


def timeline(workers: Sequence[Sequence[Segment]]) -> Timeline:
    """Segments of all workers as arrays."""
    worker = np.repeat(np.arange(len(workers)), [len(segments) for segments in workers])
    flat = [segment for segments in workers for segment in segments]
    return Timeline(
        worker,
        np.array([segment.kind for segment in flat], dtype=np.int64),
        np.array([segment.start for segment in flat]),
        np.array([segment.end for segment in flat]),
        np.array([segment.batch for segment in flat], dtype=np.int64),
    )


def _summary(values: Floats) -> dict[str, float]:
    known = values[np.isfinite(values)]
    if known.size == 0:
        return dict.fromkeys(["mean", *(f"p{percent}" for percent in PERCENTILES)], float("nan"))
    at = np.percentile(known, PERCENTILES)
    return {"mean": float(known.mean())} | {
        f"p{percent}": float(value) for percent, value in zip(PERCENTILES, at, strict=True)
    }


def _count(enter: Floats, leave: Floats) -> StepFunction:
    """Entered less left, at each moment it changes; who leaves at a moment is gone before others enter."""
    time = np.concatenate([leave, enter])
    change = np.repeat([-1.0, 1.0], [len(leave), len(enter)])
    order = np.argsort(time, kind="stable")
    time, total = time[order], np.cumsum(change[order])
    last = np.append(time[1:] != time[:-1], True)
    return StepFunction(time[last], total[last])
