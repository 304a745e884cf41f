"""Parts of a training step and its operators as rows, in the order and colours every page shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trn2model.estimate.rank.operators import ENGINES
from trn2model.estimate.training.step import TrainingEstimate

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
