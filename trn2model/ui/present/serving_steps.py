"""Parts of both serving phases, what each is called, and what binds a phase."""

from __future__ import annotations

from typing import Final

import numpy as np

from trn2model.estimate.rank.operators import ENGINES
from trn2model.estimate.serving.passes import Pass
from trn2model.estimate.serving.steady import ServingEstimate

#: part of a phase -> what it is called
PART_NAMES: Final = {
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
SHORT_NAMES: Final = {
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
PART_COLOURS: Final = {
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
    shares |= {PART_NAMES.get(name, name): part for name, part in parts.items() if name not in _COMPUTE}
    most = max(shares, key=lambda name: shares[name])
    return most, shares[most] / sum(parts.values())


def _engine_times(one: Pass) -> dict[str, float]:
    """Time of a pass that goes to operators bound by each engine."""
    spent = np.asarray(one.operators.time * one.operator_count, dtype=np.float64)
    bound = np.asarray(one.operators.bound)
    return {engine: float(spent[bound == code].sum()) for code, engine in enumerate(ENGINES)}
