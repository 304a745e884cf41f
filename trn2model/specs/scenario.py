"""The scenario: one table of fields from which URL keys, CLI flags, JSON, widgets and tooltips derive."""

# ruff: noqa: RUF009 (row wraps dataclasses.field)

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn2model.errors import InvalidInputError
from trn2model.specs import catalog, numerics
from trn2model.specs.fields import (
    AUTO,
    AXES,
    NONE,
    BoolField,
    ChoiceField,
    FloatField,
    IntField,
    ModelField,
    NameField,
    OrderField,
    ScenarioField,
    SubsetField,
    row,
    table_of,
    words,
)
from trn2model.specs.model import ModelSpec
from trn2model.specs.plan import MAX_TOKENS, SAVEABLE
from trn2model.specs.profile import profile_names

MAX_DEGREE: Final = 1024
MAX_CONCURRENCY: Final = 65536

#: one integer, or an integer array with one entry per plan
Integers: TypeAlias = int | NDArray[np.int64]
#: as `Integers`, or "auto"
AutoIntegers: TypeAlias = int | str | NDArray[np.int64]


def _drafts() -> tuple[str, ...]:
    return ("eagle", *catalog.model_names())


@dataclass(frozen=True, eq=False, kw_only=True)
class Scenario:
    """A model on a machine with a parallel plan and a workload; what is left out takes its default."""

    # A table: name, type and default; then link key, label, group and rules; then the help text.
    # fmt: off
    model: str | ModelSpec = row("llama-3.1-70b", ModelField(
        "m", "Model", "Model", choices=catalog.model_names,
        help="Transformer to run: a catalog name, or a model of your own read from a Hugging Face config.json."))
    system: str = row("trn2-ultraserver", NameField(
        "s", "System", "System", choices=catalog.system_names,
        help="Machine that is rented as one unit: an instance, or an UltraServer of four instances."))
    count: int = row(1, IntField(
        "n", "Systems", "System", minimum=1, maximum=1024,
        help="How many of that system work together, joined by EFA."))
    lnc: int = row(2, IntField(
        "lnc", "Logical NeuronCore size", "System", minimum=1, maximum=2,
        help="Physical NeuronCores that act as one rank: 2 gives 4 ranks per Trainium2 chip, 1 gives 8. Other chips "
        "ignore it."))
    price_option: str = row(AUTO, ChoiceField(
        "po", "Price option", "System", unset=AUTO, choices=words("capacity-block", "on-demand", "spot", "reserved"),
        help="How the machine is paid for. Left on auto, the option that is usual for the system is taken."))
    tp: AutoIntegers = row(AUTO, IntField(
        "tp", "Tensor parallel (tp)", "Parallelism", minimum=1, maximum=MAX_DEGREE, unit="ranks", unset=AUTO, plan=True,
        help="Ranks that share every matrix of a layer; it must divide the attention heads. Auto takes 32 on Trn2 at "
        "LNC 2 and on Trn1, 64 at LNC 1, 8 on GPUs, or the largest power of two below that fits heads and ranks."))
    pp: Integers = row(1, IntField(
        "pp", "Pipeline parallel (pp)", "Parallelism", minimum=1, maximum=MAX_DEGREE, unit="stages", plan=True,
        help="Stages into which the layers are cut, one after another."))
    cp: Integers = row(1, IntField(
        "cp", "Context parallel (cp)", "Parallelism", minimum=1, maximum=MAX_DEGREE, unit="ranks", plan=True,
        help="Ranks that share one sequence by cutting it into pieces; it must divide the sequence length."))
    ep: Integers = row(1, IntField(
        "ep", "Expert parallel (ep)", "Parallelism", minimum=1, maximum=MAX_DEGREE, unit="ranks", plan=True,
        help="Ranks over which the experts of a mixture-of-experts model are spread; dense models need 1."))
    dp: AutoIntegers = row(AUTO, IntField(
        "dp", "Data parallel (dp)", "Parallelism", minimum=1, maximum=65536, unit="replicas", unset=AUTO, plan=True,
        help="Replicas that share the batch when training, or answer different requests when serving. Auto fills the "
        "ranks that the other degrees leave."))
    sequence_parallel: bool = row(True, BoolField(
        "sp", "Sequence parallel", "Parallelism",
        help="Splits norms, dropout and residuals over the tensor-parallel ranks by tokens: less activation memory "
        "for the same bytes on the links."))
    zero: Integers = row(1, IntField(
        "z", "ZeRO stage", "Parallelism", minimum=0, maximum=3, plan=True,
        help="What data-parallel replicas share instead of copying: 0 nothing, 1 optimizer state, 2 gradients too, 3 "
        "weights too (FSDP)."))
    zero_group: str = row("all", ChoiceField(
        "zg", "ZeRO group", "Parallelism", choices=words("all", "domain", "instance"),
        help="Replicas among which ZeRO shards: all of them, those inside one NeuronLink or NVLink domain, or those "
        "inside one instance; outside the group, states are replicated and gradients reduced once more."))
    fsdp_prefetch: int = row(1, IntField(
        "fp", "FSDP prefetch", "Parallelism", minimum=0, maximum=64, unit="layers",
        help="Layers whose weights ZeRO 3 gathers ahead of their use; 0 gathers each layer only when it is needed."))
    interleave: Integers = row(1, IntField(
        "v", "Interleave", "Parallelism", minimum=1, maximum=256, plan=True,
        help="Virtual stages per pipeline rank: more of them shrink the bubble and send more between stages."))
    pipeline_schedule: str = row("1f1b", ChoiceField(
        "ps", "Pipeline schedule", "Parallelism", choices=words("1f1b", "gpipe", "zb-h1"),
        help="Order of forward and backward passes over the stages: one forward one backward, all forward first "
        "(gpipe), or zero-bubble with weight gradients filling the gaps."))
    context_parallel_method: str = row("ring", ChoiceField(
        "cm", "Context parallel method", "Parallelism", choices=words("ring", "all-gather"),
        help="How the pieces of a sequence see each other's keys and values: passed around a ring, or gathered at "
        "once."))
    placement: str = row(",".join(AXES), OrderField(
        "pl", "Placement", "Parallelism",
        help="Order in which the parallel axes fill the machine, innermost first: the first axis gets the cores of "
        "one chip, the last one crosses instances."))
    precision: str = row("bf16", ChoiceField(
        "p", "Precision", "Precision & sparsity", choices=words("bf16", "fp16", "fp8", "fp32"),
        help="Number format of the inputs of matrix multiplications."))
    weight_dtype: str = row(AUTO, ChoiceField(
        "wd", "Weight format", "Precision & sparsity", unset=AUTO, choices=numerics.dtype_names,
        help="Number format in which weights are stored and read. Auto follows the precision."))
    kv_dtype: str = row(AUTO, ChoiceField(
        "kd", "KV cache format", "Precision & sparsity", unset=AUTO, choices=numerics.dtype_names,
        help="Number format in which keys and values are cached. Auto follows the precision."))
    sparsity: str = row("dense", ChoiceField(
        "sx", "Sparsity", "Precision & sparsity", choices=numerics.sparsity_names,
        help="Structured sparsity of the weights, N:M keeps N of every M values. Only the forward pass gains, unless "
        "the mask is transposable."))
    transposable_mask: bool = row(False, BoolField(
        "tm", "Transposable mask", "Precision & sparsity",
        help="Says that the sparsity pattern holds along both sides of each matrix, so that input gradients gain too."))
    microbatch_size: Integers = row(1, IntField(
        "mb", "Microbatch size", "Training", minimum=1, maximum=65536, unit="sequences", plan=True,
        help="Sequences that one replica takes through the layers at a time."))
    global_batch_size: Integers = row(1024, IntField(
        "gb", "Global batch size", "Training", minimum=1, maximum=16_777_216, unit="sequences", plan=True,
        help="Sequences of one optimizer step over all replicas; a multiple of dp x ep x microbatch size."))
    sequence_length: Integers = row(4096, IntField(
        "sl", "Sequence length", "Training", minimum=1, maximum=MAX_TOKENS, unit="tokens", plan=True,
        help="Tokens of one training sequence."))
    recompute: str = row("selective", ChoiceField(
        "rc", "Recompute", "Training", choices=words("none", "selective", "full"),
        help="What the backward pass computes again instead of keeping: nothing, the attention core, or whole layers."))
    saved_operators: str | None = row(None, SubsetField(
        "so", "Saved operators", "Training", unset=NONE, choices=words(*SAVEABLE),
        help="Outputs that full recompute keeps all the same, so that they are not computed again."))
    optimizer: str = row("adamw-fp32", ChoiceField(
        "opt", "Optimizer", "Training", choices=words("adamw-fp32", "adamw-bf16-sr"),
        help="AdamW with fp32 master weights and moments, or all in bf16 with stochastic rounding."))
    attention_kernel: str = row("flash", ChoiceField(
        "ak", "Attention kernel", "Training", choices=words("flash", "naive"),
        help="Flash attention keeps scores in on-chip memory; naive attention writes them to HBM."))
    lora_rank: int = row(0, IntField(
        "lr", "LoRA rank", "Training", minimum=0, maximum=4096,
        help="Rank of the trained low-rank adapters while the base model stays frozen; 0 trains all weights."))
    training_tokens: float = row(1e12, FloatField(
        "tt", "Tokens to train on", "Training", minimum=1, maximum=1e16, unit="tokens",
        help="Tokens of the whole training run, for its time and cost."))
    instance_mtbf: float | str = row(AUTO, FloatField(
        "mt", "Time between failures", "Training", minimum=1, maximum=1e9, unit="h", unset=AUTO,
        help="Mean time between failures of one instance that stop the whole job. Auto takes the published figure of "
        "a large training run."))
    checkpoint_bandwidth: float | str = row(AUTO, FloatField(
        "ck", "Checkpoint bandwidth", "Training", minimum=0.001, maximum=100_000, unit="GB/s", unset=AUTO,
        help="Rate at which one instance writes its share of a checkpoint while the job waits. Auto takes a published "
        "storage system's share."))
    restart_time: float | str = row(AUTO, FloatField(
        "rs", "Restart time", "Training", minimum=0, maximum=1e6, unit="s", unset=AUTO,
        help="From a failure until training goes on from the last checkpoint. Auto takes a published figure."))
    input_tokens: Integers = row(2048, IntField(
        "it", "Input tokens", "Inference", minimum=1, maximum=MAX_TOKENS - 1, unit="tokens", plan=True,
        help=f"Tokens of one prompt; with the output tokens at most {MAX_TOKENS:,}."))
    output_tokens: Integers = row(512, IntField(
        "ot", "Output tokens", "Inference", minimum=1, maximum=MAX_TOKENS - 1, unit="tokens", plan=True,
        help=f"Tokens generated for one prompt; with the input tokens at most {MAX_TOKENS:,}."))
    concurrency: Integers = row(8, IntField(
        "c", "Concurrency", "Inference", minimum=1, maximum=MAX_CONCURRENCY, unit="requests", plan=True,
        help="Requests that one replica answers at the same time."))
    compiled_batch: AutoIntegers = row(AUTO, IntField(
        "cb", "Compiled batch", "Inference", minimum=1, maximum=MAX_CONCURRENCY, unit="requests", unset=AUTO, plan=True,
        help="Batch of the static decode graph: a step costs this many requests however many run. Auto equals the "
        "concurrency."))
    context_bucket: AutoIntegers = row(AUTO, IntField(
        "bk", "Context bucket", "Inference", minimum=1, maximum=MAX_TOKENS, unit="tokens", unset=AUTO, plan=True,
        help="Prompt length of the static prefill graph: shorter prompts are padded to it. Auto takes the next power "
        "of two up to 8,192 tokens, the next multiple of 4,096 beyond, and no padding on GPUs."))
    prefill_chunk: int = row(0, IntField(
        "pc", "Prefill chunk", "Inference", minimum=0, maximum=MAX_TOKENS, unit="tokens",
        help="Prompt tokens processed per prefill step, so that decoding stalls less; 0 takes the prompt whole."))
    prefix_hit: float = row(0.0, FloatField(
        "ph", "Prefix hit", "Inference", minimum=0, maximum=1,
        help="Share of the prompt whose keys and values are already in the cache."))
    prefill_replicas: int = row(0, IntField(
        "pr", "Prefill replicas", "Inference", minimum=0, maximum=65535, unit="replicas",
        help="Replicas that only prefill and hand the KV cache to the others, which only decode; 0 lets every replica "
        "do both."))
    draft_model: str | None = row(None, NameField(
        "dm", "Draft model", "Inference", unset=NONE, choices=_drafts,
        help="Small model that guesses tokens for the large one to verify; eagle is one extra layer of the model "
        "itself."))
    draft_tokens: int = row(0, IntField(
        "dt", "Draft tokens", "Inference", minimum=0, maximum=64, unit="tokens",
        help="Tokens that the draft model guesses per step."))
    acceptance: float | None = row(None, FloatField(
        "da", "Acceptance", "Inference", minimum=0, maximum=1, unset=NONE,
        help="Probability that one guessed token is accepted."))
    profile: str = row(AUTO, ChoiceField(
        "pf", "Profile", "Assumptions", unset=AUTO, choices=profile_names,
        help="How close real kernels and links come to the published peaks. Auto takes the profile that fits the "
        "system; ideal takes every peak as reached."))
    peak_basis: str = row("neuron-docs", ChoiceField(
        "pk", "Peak basis", "Assumptions", choices=words("neuron-docs", "launch"),
        help="Which source is believed for the sparse peak: the Neuron documentation (2,563 TFLOP/s per Trainium2) or "
        "the launch announcement (5,200)."))
    overlap: bool = row(True, BoolField(
        "ol", "Overlap", "Assumptions",
        help="Lets communication of a training step hide behind compute as far as the profile says; off exposes all "
        "of it."))
    moe_imbalance: float = row(1.0, FloatField(
        "mi", "Expert imbalance", "Assumptions", minimum=1, maximum=1024,
        help="Load of the busiest expert rank over the mean, or the capacity factor to which experts are padded; 1 "
        "means that the router spreads tokens evenly."))
    # fmt: on

    def __post_init__(self) -> None:
        """Check every value that is not its default."""
        for field in FIELDS:
            value = getattr(self, field.name)
            if value is not field.default:
                object.__setattr__(self, field.name, field.check(value))

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
        return tuple(_hashable(getattr(self, field.name)) for field in FIELDS)

    def to_dict(self) -> dict[str, Any]:
        """Scenario as JSON values.

        Returns
        -------
        dict
            Field name to number, text, bool, None or list; a model of your own appears by its name.
        """
        return {field.name: _json(getattr(self, field.name)) for field in FIELDS}

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
ROWS: Final[Mapping[str, ScenarioField]] = {field.name: field for field in FIELDS}
KEYS: Final[Mapping[str, ScenarioField]] = {field.key: field for field in FIELDS}


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
