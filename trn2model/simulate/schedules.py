"""Order of work on each pipeline stage: GPipe, 1F1B, interleaved 1F1B and zero-bubble ZB-H1.

An order is an array of rows (kind, chunk, microbatch). Virtual stage ``chunk * num_stages + stage`` follows
``chunk * num_stages + stage - 1``. No durations here: `simulate.pipeline` turns orders into times.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidPlanError

Order = NDArray[np.int64]

#: kinds of task, by code; a backward task holds the weight gradient too unless the schedule splits it off
KINDS: Final = ("forward", "backward", "weight_gradient")
FORWARD: Final = 0
BACKWARD: Final = 1
WEIGHT_GRADIENT: Final = 2

#: schedules by name; only "interleaved" has more than one chunk per stage
SCHEDULES: Final = ("gpipe", "1f1b", "interleaved", "zb-h1")


def stage_orders(schedule: str, num_stages: int, num_microbatches: int, interleave: int) -> tuple[Order, ...]:
    r"""Order of tasks on every stage of a pipeline schedule.

    GPipe: all forwards, then all backwards. 1F1B: stage :math:`s` runs :math:`p - s - 1` forwards ahead, then
    alternates. Interleaved: Megatron's order, :math:`2(p - s - 1) + (v - 1)p` chunk forwards ahead, microbatches in
    groups of :math:`p`. ZB-H1: 1F1B with the weight gradient split off and put off by :math:`s` microbatches.

    Raises InvalidPlanError (the schedule is unknown, a count is below 1, or GPipe or ZB-H1 is asked to interleave).

    Notes
    -----
    Free of deadlock for every `num_microbatches`. Where it is no multiple of the stages, the interleaved order is
    that of the next multiple with the absent microbatches struck out; removing tasks from an acyclic precedence
    graph leaves it acyclic.

    References
    ----------
    .. [1] megatron-sc21
    .. [2] gpipe
    .. [3] zero-bubble
    """
    _check(schedule, num_stages, num_microbatches, interleave)
    stages = range(num_stages)
    if schedule == "gpipe":
        return tuple(_gpipe(num_microbatches) for _ in stages)
    if schedule == "zb-h1":
        return tuple(_zero_bubble(num_stages, num_microbatches, stage) for stage in stages)
    if interleave == 1:
        return tuple(_one_forward_one_backward(num_stages, num_microbatches, stage) for stage in stages)
    return tuple(_interleaved(num_stages, num_microbatches, interleave, stage) for stage in stages)


def _check(schedule: str, num_stages: int, num_microbatches: int, interleave: int) -> None:
    if schedule not in SCHEDULES:
        field, allowed, remedy = "schedule", "one of " + ", ".join(SCHEDULES), "choose a listed schedule"
        raise InvalidPlanError(field, schedule, allowed, remedy)
    counts = {"pp": num_stages, "num_microbatches": num_microbatches, "interleave": interleave}
    for field, count in counts.items():
        if count < 1:
            raise InvalidPlanError(field, count, "an integer of at least 1", "raise it")
    if schedule in {"gpipe", "zb-h1"} and interleave > 1:
        allowed, remedy = f"1 under {schedule}", "use the interleaved schedule"
        raise InvalidPlanError("interleave", interleave, allowed, remedy)


def _tasks(kind: int, chunk: NDArray[np.int64], microbatch: NDArray[np.int64]) -> Order:
    return np.stack([np.full_like(microbatch, kind), chunk, microbatch], axis=1)


def _single(kind: int, num_microbatches: int) -> Order:
    microbatch = np.arange(num_microbatches)
    return _tasks(kind, np.zeros_like(microbatch), microbatch)


def _gpipe(num_microbatches: int) -> Order:
    return np.concatenate([_single(FORWARD, num_microbatches), _single(BACKWARD, num_microbatches)])


def _alternate(forward: Order, backward: Order, warm_up: int) -> Order:
    """One forward, one backward after `warm_up` forwards; the backwards that are left close the step."""
    steady = len(forward) - warm_up
    pairs = np.stack([forward[warm_up:], backward[:steady]], axis=1).reshape(-1, 3)
    return np.concatenate([forward[:warm_up], pairs, backward[steady:]])


def _one_forward_one_backward(num_stages: int, num_microbatches: int, stage: int) -> Order:
    warm_up = min(num_stages - stage - 1, num_microbatches)
    return _alternate(_single(FORWARD, num_microbatches), _single(BACKWARD, num_microbatches), warm_up)


def _interleaved(num_stages: int, num_microbatches: int, interleave: int, stage: int) -> Order:
    padded = -(-num_microbatches // num_stages) * num_stages
    group, within = np.divmod(np.arange(padded * interleave), num_stages * interleave)
    chunk, position = np.divmod(within, num_stages)
    microbatch = group * num_stages + position
    warm_up = min(2 * (num_stages - stage - 1) + (interleave - 1) * num_stages, len(microbatch))
    forward, backward = _tasks(FORWARD, chunk, microbatch), _tasks(BACKWARD, interleave - 1 - chunk, microbatch)
    order = _alternate(forward, backward, warm_up)
    return order[order[:, 2] < num_microbatches]


def _zero_bubble(num_stages: int, num_microbatches: int, stage: int) -> Order:
    """1F1B whose backward is split: weight gradients follow `stage` microbatches behind, the rest fill the end."""
    base = _one_forward_one_backward(num_stages, num_microbatches, stage)
    delay = min(stage, num_microbatches)
    is_backward = base[:, 0] == BACKWARD
    followed = np.flatnonzero(is_backward)[delay:] + 1
    weight = _single(WEIGHT_GRADIENT, num_microbatches)
    split = np.insert(base, followed, weight[: num_microbatches - delay], axis=0)
    return np.concatenate([split, weight[num_microbatches - delay :]])
