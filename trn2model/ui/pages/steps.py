"""Parts of a training step and of the serving phases: their names, what binds them, and the verdict on a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trn2model.model.operators import ENGINES
from trn2model.model.result import Violation
from trn2model.model.serving.passes import Pass
from trn2model.model.serving.steady import ServingEstimate
from trn2model.model.training.step import TrainingEstimate
from trn2model.text import capacity, count, duration, percent, quantity
from trn2model.ui.pages.content import Verdict

#: part of the step -> what it is called
PART_NAMES: Final = {
    "forward": "forward compute",
    "backward": "backward compute",
    "recompute": "recompute",
    "tp_exposed": "exposed tensor-parallel communication",
    "cp_exposed": "exposed context-parallel communication",
    "ep_exposed": "exposed expert-parallel communication",
    "pp_exposed": "exposed pipeline transfers",
    "dp_exposed": "exposed gradient communication",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer step",
    "fixed": "fixed host time",
}
#: part of the step -> name short enough for an axis
SHORT_NAMES: Final = {
    "forward": "forward",
    "backward": "backward",
    "recompute": "recompute",
    "tp_exposed": "tp exposed",
    "cp_exposed": "cp exposed",
    "ep_exposed": "ep exposed",
    "pp_exposed": "pp exposed",
    "dp_exposed": "dp exposed",
    "bubble": "bubble",
    "optimizer": "optimizer",
    "fixed": "fixed",
}
_ATTENTION: Final = ("attention",)
GROUPS: Final = ("weight GEMM", "attention", "element-wise")


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator of the forward pass on one rank, in SI units; `step_time` is its share of a whole step."""

    name: str
    group: str
    runs: float
    flop: float
    hbm_bytes: float
    time: float
    tensor_time: float
    vector_time: float
    scalar_time: float
    hbm_time: float
    bound: str

    @property
    def step_time(self) -> float:
        """Time of all its forward runs in a step [s]."""
        return self.runs * self.time


def operator_rows(estimate: TrainingEstimate) -> tuple[OperatorRow, ...]:
    """Operators of the forward pass, those that do not run left out."""
    table, blocks = estimate.operators, estimate.operator_blocks
    bound, runs = np.asarray(table.bound), np.asarray(estimate.operator_count, dtype=np.float64)
    twice = {name for name in table.names if table.names.count(name) > 1}
    return tuple(
        OperatorRow(
            name=_title(name, blocks[i], name in twice),
            group=_group(name, float(table.flop[i])),
            runs=float(runs[i]),
            flop=float(table.flop[i]),
            hbm_bytes=float(table.hbm_bytes[i]),
            time=float(table.time[i]),
            tensor_time=float(table.tensor_time[i]),
            vector_time=float(table.vector_time[i]),
            scalar_time=float(table.scalar_time[i]),
            hbm_time=float(table.hbm_time[i]),
            bound=ENGINES[int(bound[i])],
        )
        for i, name in enumerate(table.names)
        if runs[i] > 0 and table.time[i] > 0
    )


def engine_times(estimate: TrainingEstimate) -> dict[str, float]:
    """Forward time of a step that goes to operators bound by each engine [s]."""
    rows = operator_rows(estimate)
    return {engine: sum(row.step_time for row in rows if row.bound == engine) for engine in ENGINES}


def _title(name: str, block: str, ambiguous: bool) -> str:
    words = name.replace("_", " ")
    return f"{words} ({block.replace('_', ' ')})" if ambiguous else words


def _group(name: str, flop: float) -> str:
    if name in _ATTENTION:
        return GROUPS[1]
    return GROUPS[0] if flop > 0 else GROUPS[2]


#: part of a phase -> what it is called
PHASE_NAMES: Final = {
    "gemm": "weight GEMMs",
    "attention": "attention",
    "elementwise": "element-wise",
    "head": "embedding and head",
    "tp": "tensor-parallel communication",
    "cp": "context-parallel communication",
    "ep": "expert-parallel communication",
    "pp": "pipeline transfers",
    "fixed": "fixed host time",
    "request": "host time of a request",
    "draft": "draft model",
    "kv_transfer": "transfer of the KV cache",
    "wait": "waiting for the longest stage",
}
#: part of a phase -> name short enough for an axis
PHASE_SHORT_NAMES: Final = {
    "gemm": "weight GEMMs",
    "elementwise": "element-wise",
    "head": "head",
    "tp": "tp links",
    "cp": "cp links",
    "ep": "ep links",
    "pp": "pp links",
    "request": "request",
    "draft": "draft",
    "kv_transfer": "KV transfer",
    "wait": "stage wait",
}
_ENGINE_WORDS: Final = {
    "tensor": "the Tensor engine",
    "vector": "the Vector engine",
    "scalar": "the Scalar engine",
    "hbm": "HBM bandwidth",
}
#: parts of a step and of a phase in which engines compute
_COMPUTE: Final = {"forward", "backward", "recompute", "gemm", "attention", "elementwise", "head"}


def bound_by(estimate: ServingEstimate, phase: str) -> tuple[str, float]:
    """What takes most of a phase: an engine's operators, communication of an axis, or another part."""
    one = estimate.prefill if phase == "prefill" else estimate.decode
    shares = {_ENGINE_WORDS[engine]: spent for engine, spent in _engine_times(one).items()}
    parts = {name: float(part) for name, part in estimate.time[phase].items()}
    shares |= {PHASE_NAMES.get(name, name): part for name, part in parts.items() if name not in _COMPUTE}
    most = max(shares, key=lambda name: shares[name])
    return most, shares[most] / sum(parts.values())


def _engine_times(one: Pass) -> dict[str, float]:
    """Time of a pass that goes to operators bound by each engine."""
    spent = np.asarray(one.operators.time * one.operator_count, dtype=np.float64)
    bound = np.asarray(one.operators.bound)
    return {engine: float(spent[bound == code].sum()) for code, engine in enumerate(ENGINES)}


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
    compute = sum(part for name, part in parts.items() if name in _COMPUTE)
    other = max((name for name in parts if name not in _COMPUTE), key=lambda name: parts[name])
    waiting = f"{PART_NAMES.get(other, other)} ({percent(parts[other] / whole)} of the step)"
    if parts[other] > compute:
        return f"Bound by {waiting}."
    engines = engine_times(estimate)
    first = max(ENGINES, key=lambda engine: engines[engine])
    computing = f"{_ENGINE_WORDS[first]} (compute is {percent(compute / whole)} of the step)"
    return f"Bound by {computing}; next comes {waiting}."


def _amount(value: float, unit: str) -> str:
    return capacity(value) if unit == "B" else quantity(value, unit)
