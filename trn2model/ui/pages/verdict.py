"""The sentence a tired engineer reads first: does it fit, how fast, what binds it."""

from __future__ import annotations

from trn2model.model.operators import ENGINES
from trn2model.model.result import Violation
from trn2model.model.training.step import TrainingEstimate
from trn2model.text import capacity, count, duration, percent, quantity
from trn2model.ui.pages.content import Verdict
from trn2model.ui.pages.steps import PART_NAMES, engine_times

_ENGINE_NAMES = {"tensor": "the Tensor engine", "vector": "the Vector engine", "scalar": "the Scalar engine"}
_COMPUTE = ("forward", "backward", "recompute")


def training_verdict(estimate: TrainingEstimate) -> Verdict:
    """Whether the plan trains, how fast, and what it waits for."""
    if not estimate.feasible:
        return Verdict(" ".join(violation_sentence(violation) for violation in estimate.violations), "bad")
    memory = estimate.memory
    fill = float(memory.used_bytes) / memory.capacity_bytes
    return Verdict(
        f"Fits: {percent(fill)} of HBM ({capacity(float(memory.used_bytes))} of {capacity(memory.capacity_bytes)}). "
        f"{count(float(estimate.tokens_per_s))} tokens/s, MFU {percent(float(estimate.mfu))}, "
        f"a step takes {duration(float(estimate.step_time))}. {bound_sentence(estimate)}",
        "good",
    )


def violation_sentence(violation: Violation) -> str:
    """What does not fit, by how much, and what would help."""
    return (
        f"Does not fit: {violation.resource} needs {_amount(violation.demand, violation.unit)}, the limit is "
        f"{_amount(violation.limit, violation.unit)} ({percent(violation.demand / violation.limit)}). "
        f"To fix it: {violation.remedy}."
    )


def bound_sentence(estimate: TrainingEstimate) -> str:
    """What takes most of the step, and the largest part that is not compute."""
    whole = float(estimate.step_time)
    parts = {name: float(part) for name, part in estimate.time.items()}
    compute = sum(parts[name] for name in _COMPUTE if name in parts)
    other = max((name for name in parts if name not in _COMPUTE), key=lambda name: parts[name])
    waiting = f"{PART_NAMES.get(other, other)} ({percent(parts[other] / whole)} of the step)"
    if parts[other] > compute:
        return f"Bound by {waiting}."
    engines = engine_times(estimate)
    first = max(ENGINES, key=lambda engine: engines[engine])
    computing = f"{_ENGINE_NAMES.get(first, 'HBM bandwidth')} (compute is {percent(compute / whole)} of the step)"
    return f"Bound by {computing}; next comes {waiting}."


def _amount(value: float, unit: str) -> str:
    return capacity(value) if unit == "B" else quantity(value, unit)
