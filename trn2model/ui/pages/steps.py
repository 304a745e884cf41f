"""Parts of a training step and of the serving phases, in the order, names and colours every page shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trn2model.model.operators import ENGINES
from trn2model.model.serving.passes import Pass
from trn2model.model.serving.steady import ServingEstimate
from trn2model.model.training.step import TrainingEstimate

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
#: place in the palette; compute is blue, communication warm
PART_COLOURS: Final = {
    "forward": 0,
    "backward": 4,
    "recompute": 2,
    "tp_exposed": 5,
    "cp_exposed": 1,
    "ep_exposed": 3,
    "pp_exposed": 7,
    "dp_exposed": 6,
    "bubble": 9,
    "optimizer": 8,
    "fixed": 9,
}
#: part of HBM -> place in the palette
MEMORY_COLOURS: Final = {
    "weights": 0,
    "gradients": 1,
    "optimizer": 2,
    "activations": 3,
    "logits": 4,
    "buffers": 5,
    "kv_cache": 8,
    "reserve": 9,
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
#: place in the palette; compute is blue, communication warm
PHASE_COLOURS: Final = {
    "gemm": 0,
    "attention": 4,
    "elementwise": 2,
    "head": 2,
    "tp": 5,
    "cp": 1,
    "ep": 3,
    "pp": 8,
    "kv_transfer": 8,
    "draft": 6,
    "wait": 9,
    "fixed": 9,
    "request": 9,
}
_ENGINE_WORDS: Final = {
    "tensor": "the Tensor engine",
    "vector": "the Vector engine",
    "scalar": "the Scalar engine",
    "hbm": "HBM bandwidth",
}
_COMPUTE: Final = ("gemm", "attention", "elementwise", "head")


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
