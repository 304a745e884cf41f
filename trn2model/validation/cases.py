"""Cases: measured rows of training and inference as scenarios that can be estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from trn2model.errors import Trn2ModelError
from trn2model.specs import catalog
from trn2model.specs.model import ModelSpec
from trn2model.specs.scenario import ROWS, Scenario
from trn2model.validation.measurements import Measurement, measured_model
from trn2model.validation.paths import holds_stalls, selected_profile

#: Kind of case that a metric measures, among those that are times of one pass or step.
TIMED_METRICS: Final[Mapping[str, str]] = {"step_time": "train", "ttft": "prefill", "tpot": "decode"}
_TRAINING_FIELDS: Final = (
    "tp",
    "cp",
    "ep",
    "dp",
    "pp",
    "interleave",
    "zero",
    "sequence_parallel",
    "microbatch_size",
    "global_batch_size",
    "sequence_length",
    "precision",
    "optimizer",
    "recompute",
    "attention_kernel",
    "lora_rank",
)
_SERVING_FIELDS: Final = (
    "tp",
    "dp",
    "concurrency",
    "compiled_batch",
    "input_tokens",
    "output_tokens",
    "precision",
    "weight_dtype",
    "kv_dtype",
)
#: Stacks that give every query head its own key/value head where tp does not divide those.
_EXPANDING_STACKS: Final = ("transformers-neuronx",)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One measured time with the scenario that predicts it.

    `profile` is the one that machine, workload and software path select; the model never does. `prompts` are those
    that one prefill takes. `nic_bandwidth` replaces the machine's where the source had another network. [B/s]
    `stalled` says that a time per token holds the prefills of other requests.
    """

    kind: str
    row: Measurement
    measured: float
    profile: str
    scenario: Scenario
    prompts: float = 1.0
    nic_bandwidth: float | None = None
    stalled: bool = False


def timed_case(row: Measurement, profile: str | None = None) -> Case | str:
    """Case of a row of training or inference."""
    kind = TIMED_METRICS.get(row.metric)
    if kind is None or not row.measured:
        return f"{row.metric} is not the time of one pass or step"
    if row.values.get("draft_model"):
        return "speculative decoding: acceptance not measured"
    try:
        name = profile or selected_profile(row)
        scenario = _training_scenario(row, name) if kind == "train" else _serving_scenario(row, name)
    except Trn2ModelError as error:
        return str(error)
    prompts = row.values.get("prefill_batch") if kind == "prefill" else None
    nic = row.values.get("nic_bandwidth")
    return Case(
        kind,
        row,
        row.measured,
        name,
        scenario,
        prompts if isinstance(prompts, float) else 1.0,
        nic if isinstance(nic, float) else None,
        holds_stalls(row),
    )


@cache
def padded_model(name: str, tp: int, expand_kv: bool) -> ModelSpec:
    """Architecture as a Neuron stack shards it: heads padded to a multiple of the tensor-parallel degree.

    References
    ----------
    .. [1] neuron-gqa
    """
    model = measured_model(name)
    kinds = []
    for kind in model.layer_kinds:
        spec = kind.attention
        heads = math.ceil(spec.num_heads / tp) * tp
        own = spec.num_kv_heads
        if spec.latent is None and ((expand_kv and own % tp) or own == spec.num_heads):
            own = heads
        kinds.append(replace(kind, attention=replace(spec, num_heads=heads, num_kv_heads=own)))
    return model if tuple(kinds) == model.layer_kinds else replace(model, layer_kinds=tuple(kinds))


def _given(row: Measurement, names: tuple[str, ...]) -> dict[str, Any]:
    cells = {name: row.values.get(name) for name in (*names, "system", "count", "lnc")}
    return {
        name: int(cell) if isinstance(cell, float) and ROWS[name].kind == "int" else cell
        for name, cell in cells.items()
        if cell is not None
    }


def _training_scenario(row: Measurement, profile: str) -> Scenario:
    fields = _given(row, _TRAINING_FIELDS)
    return Scenario(model=_scenario_model(row, fields), profile=profile, **fields)


def _serving_scenario(row: Measurement, profile: str) -> Scenario:
    fields = {"dp": 1, "output_tokens": 1} | _given(row, _SERVING_FIELDS)
    fields["dp"] = 1  # replicas work apart; their times are those of one
    fields.setdefault("concurrency", 1)
    fields["compiled_batch"] = max(fields.get("compiled_batch", 1), fields["concurrency"])
    return Scenario(model=_scenario_model(row, fields), profile=profile, **fields)


def _scenario_model(row: Measurement, fields: Mapping[str, Any]) -> str | ModelSpec:
    model = padded_model(row.text("model"), fields.get("tp", 1), row.text("stack") in _EXPANDING_STACKS)
    return model.name if model.name in catalog.model_names() and model is catalog.model(model.name) else model
