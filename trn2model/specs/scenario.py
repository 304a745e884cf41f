"""The scenario: one table of fields from which URL keys, CLI flags, JSON, widgets and tooltips derive."""

# ruff: noqa: RUF009 (scenario_field wraps dataclasses.field)

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trn2model.errors import InvalidInputError
from trn2model.specs import catalog
from trn2model.specs.fields import AUTO, NONE, ScenarioField, scenario_field, table_of, words
from trn2model.specs.model import ModelSpec
from trn2model.specs.plan import MAX_TOKENS
from trn2model.specs.profile import profile_names
from trn2model.specs.scenario_plan import AutoIntegers, Integers
from trn2model.specs.scenario_training import TrainingFields


def _drafts() -> tuple[str, ...]:
    return ("eagle", *catalog.model_names())


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenario(TrainingFields):
    """A model on a machine with a parallel plan and a workload; what is left out takes its default."""

    input_tokens: Integers = scenario_field(
        2048,
        "it",
        "int",
        "Input tokens",
        "Inference",
        f"Tokens of one prompt; with the output tokens at most {MAX_TOKENS:,}.",
        minimum=1,
        maximum=MAX_TOKENS - 1,
        unit="tokens",
        plan=True,
    )
    output_tokens: Integers = scenario_field(
        512,
        "ot",
        "int",
        "Output tokens",
        "Inference",
        f"Tokens generated for one prompt; with the input tokens at most {MAX_TOKENS:,}.",
        minimum=1,
        maximum=MAX_TOKENS - 1,
        unit="tokens",
        plan=True,
    )
    concurrency: Integers = scenario_field(
        8,
        "c",
        "int",
        "Concurrency",
        "Inference",
        "Requests that one replica answers at the same time.",
        minimum=1,
        maximum=65536,
        unit="requests",
        plan=True,
    )
    compiled_batch: AutoIntegers = scenario_field(
        AUTO,
        "cb",
        "int",
        "Compiled batch",
        "Inference",
        "Batch of the static decode graph: a step costs this many requests however many run. Auto equals the "
        "concurrency.",
        minimum=1,
        maximum=65536,
        unit="requests",
        unset=AUTO,
        plan=True,
    )
    context_bucket: AutoIntegers = scenario_field(
        AUTO,
        "bk",
        "int",
        "Context bucket",
        "Inference",
        "Prompt length of the static prefill graph: shorter prompts are padded to it. Auto takes the next "
        "power of two up to 8,192 tokens, the next multiple of 4,096 beyond, and no padding on GPUs.",
        minimum=1,
        maximum=MAX_TOKENS,
        unit="tokens",
        unset=AUTO,
        plan=True,
    )
    prefill_chunk: int = scenario_field(
        0,
        "pc",
        "int",
        "Prefill chunk",
        "Inference",
        "Prompt tokens processed per prefill step, so that decoding stalls less; 0 takes the prompt whole.",
        minimum=0,
        maximum=MAX_TOKENS,
        unit="tokens",
    )
    prefix_hit: float = scenario_field(
        0.0,
        "ph",
        "float",
        "Prefix hit",
        "Inference",
        "Share of the prompt whose keys and values are already in the cache.",
        minimum=0,
        maximum=1,
    )
    prefill_replicas: int = scenario_field(
        0,
        "pr",
        "int",
        "Prefill replicas",
        "Inference",
        "Replicas that only prefill and hand the KV cache to the others, which only decode; 0 lets every replica do "
        "both.",
        minimum=0,
        maximum=65535,
        unit="replicas",
    )
    draft_model: str | None = scenario_field(
        None,
        "dm",
        "name",
        "Draft model",
        "Inference",
        "Small model that guesses tokens for the large one to verify; eagle is one extra layer of the model itself.",
        unset=NONE,
        choices=_drafts,
    )
    draft_tokens: int = scenario_field(
        0,
        "dt",
        "int",
        "Draft tokens",
        "Inference",
        "Tokens that the draft model guesses per step.",
        minimum=0,
        maximum=64,
        unit="tokens",
    )
    acceptance: float | None = scenario_field(
        None,
        "da",
        "float",
        "Acceptance",
        "Inference",
        "Probability that one guessed token is accepted.",
        minimum=0,
        maximum=1,
        unset=NONE,
    )
    profile: str = scenario_field(
        AUTO,
        "pf",
        "choice",
        "Profile",
        "Assumptions",
        "How close real kernels and links come to the published peaks. Auto takes the profile that fits the system; "
        "ideal takes every peak as reached.",
        unset=AUTO,
        choices=profile_names,
    )
    peak_basis: str = scenario_field(
        "neuron-docs",
        "pk",
        "choice",
        "Peak basis",
        "Assumptions",
        "Which source is believed for the sparse peak: the Neuron documentation (2,563 TFLOP/s per Trainium2) or the "
        "launch announcement (5,200).",
        choices=words("neuron-docs", "launch"),
    )
    overlap: bool = scenario_field(
        True,
        "ol",
        "bool",
        "Overlap",
        "Assumptions",
        "Lets communication of a training step hide behind compute as far as the profile says; off exposes all of it.",
    )
    moe_imbalance: float = scenario_field(
        1.0,
        "mi",
        "float",
        "Expert imbalance",
        "Assumptions",
        "Load of the busiest expert rank over the mean, or the capacity factor to which experts are padded; 1 means "
        "that the router spreads tokens evenly.",
        minimum=1,
        maximum=1024,
    )

    def __post_init__(self) -> None:
        """Check every value that is not its default."""
        for row in FIELDS:
            value = getattr(self, row.name)
            if value is not row.default:
                object.__setattr__(self, row.name, row.check(value))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the values of a copy or a pickle, arrays as read-only as they were."""
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, arrays entry by entry."""
        return isinstance(other, Scenario) and self._values() == other._values()

    def __hash__(self) -> int:
        """Hash of all fields."""
        return hash(self._values())

    def _values(self) -> tuple[object, ...]:
        return tuple(_hashable(getattr(self, row.name)) for row in FIELDS)

    def to_dict(self) -> dict[str, Any]:
        """Scenario as JSON values.

        Returns
        -------
        dict
            Field name to number, text, bool, None or list; a model of your own appears by its name.
        """
        return {row.name: _json(getattr(self, row.name)) for row in FIELDS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scenario:
        """Scenario from JSON values; what is left out takes its default.

        Parameters
        ----------
        values : Mapping
            Field name to value, as `to_dict` gives it.

        Returns
        -------
        Scenario
            The checked scenario.

        Raises
        ------
        InvalidInputError
            There are no names and values, a name is no field of the scenario, or a value is not allowed.
        """
        _check_names(values)
        return cls(**values)


#: the scenario table
FIELDS: Final[tuple[ScenarioField, ...]] = table_of(Scenario)
#: its rows by field name, and by URL key
ROWS: Final[Mapping[str, ScenarioField]] = {row.name: row for row in FIELDS}
KEYS: Final[Mapping[str, ScenarioField]] = {row.key: row for row in FIELDS}


def _check_names(values: object) -> None:
    if not isinstance(values, Mapping):
        remedy = "give a dict, as to_dict makes it"
        raise InvalidInputError("scenario", values, "a mapping of field names to values", remedy)
    for name, value in values.items():
        if name not in ROWS:
            shown = name if isinstance(name, str) else reprlib.repr(name)
            raise InvalidInputError(shown[:60], value, "a field of the scenario", "leave it out")


def _json(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.name if isinstance(value, ModelSpec) else value


def _hashable(value: object) -> object:
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
