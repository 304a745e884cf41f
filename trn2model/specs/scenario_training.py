"""Second part of the scenario table: number formats, sparsity, and the training step and run."""

# ruff: noqa: RUF009 (scenario_field wraps dataclasses.field)

from __future__ import annotations

from dataclasses import dataclass

from trn2model.specs import numerics
from trn2model.specs.fields import AUTO, NONE, scenario_field, words
from trn2model.specs.plan import MAX_TOKENS, SAVEABLE
from trn2model.specs.scenario_plan import Integers, PlanFields


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingFields(PlanFields):
    """Fields that say in which numbers a model runs, and how it is trained."""

    precision: str = scenario_field(
        "bf16",
        "p",
        "choice",
        "Precision",
        "Precision & sparsity",
        "Number format of the inputs of matrix multiplications.",
        choices=words("bf16", "fp16", "fp8", "fp32"),
    )
    weight_dtype: str = scenario_field(
        AUTO,
        "wd",
        "choice",
        "Weight format",
        "Precision & sparsity",
        "Number format in which weights are stored and read. Auto follows the precision.",
        unset=AUTO,
        choices=numerics.dtype_names,
    )
    kv_dtype: str = scenario_field(
        AUTO,
        "kd",
        "choice",
        "KV cache format",
        "Precision & sparsity",
        "Number format in which keys and values are cached. Auto follows the precision.",
        unset=AUTO,
        choices=numerics.dtype_names,
    )
    sparsity: str = scenario_field(
        "dense",
        "sx",
        "choice",
        "Sparsity",
        "Precision & sparsity",
        "Structured sparsity of the weights, N:M keeps N of every M values. Only the forward pass gains, unless the "
        "mask is transposable.",
        choices=numerics.sparsity_names,
    )
    transposable_mask: bool = scenario_field(
        False,
        "tm",
        "bool",
        "Transposable mask",
        "Precision & sparsity",
        "Says that the sparsity pattern holds along both sides of each matrix, so that input gradients gain too.",
    )
    microbatch_size: Integers = scenario_field(
        1,
        "mb",
        "int",
        "Microbatch size",
        "Training",
        "Sequences that one replica takes through the layers at a time.",
        minimum=1,
        maximum=65536,
        unit="sequences",
        plan=True,
    )
    global_batch_size: Integers = scenario_field(
        1024,
        "gb",
        "int",
        "Global batch size",
        "Training",
        "Sequences of one optimizer step over all replicas; a multiple of dp x ep x microbatch size.",
        minimum=1,
        maximum=16_777_216,
        unit="sequences",
        plan=True,
    )
    sequence_length: Integers = scenario_field(
        4096,
        "sl",
        "int",
        "Sequence length",
        "Training",
        "Tokens of one training sequence.",
        minimum=1,
        maximum=MAX_TOKENS,
        unit="tokens",
        plan=True,
    )
    recompute: str = scenario_field(
        "selective",
        "rc",
        "choice",
        "Recompute",
        "Training",
        "What the backward pass computes again instead of keeping: nothing, the attention core, or whole layers.",
        choices=words("none", "selective", "full"),
    )
    saved_operators: str | None = scenario_field(
        None,
        "so",
        "list",
        "Saved operators",
        "Training",
        "Outputs that full recompute keeps all the same, so that they are not computed again.",
        unset=NONE,
        choices=words(*SAVEABLE),
    )
    optimizer: str = scenario_field(
        "adamw-fp32",
        "opt",
        "choice",
        "Optimizer",
        "Training",
        "AdamW with fp32 master weights and moments, or all in bf16 with stochastic rounding.",
        choices=words("adamw-fp32", "adamw-bf16-sr"),
    )
    attention_kernel: str = scenario_field(
        "flash",
        "ak",
        "choice",
        "Attention kernel",
        "Training",
        "Flash attention keeps scores in on-chip memory; naive attention writes them to HBM.",
        choices=words("flash", "naive"),
    )
    lora_rank: int = scenario_field(
        0,
        "lr",
        "int",
        "LoRA rank",
        "Training",
        "Rank of the trained low-rank adapters while the base model stays frozen; 0 trains all weights.",
        minimum=0,
        maximum=4096,
    )
    training_tokens: float = scenario_field(
        1e12,
        "tt",
        "float",
        "Tokens to train on",
        "Training",
        "Tokens of the whole training run, for its time and cost.",
        minimum=1,
        maximum=1e16,
        unit="tokens",
    )
    instance_mtbf: float | str = scenario_field(
        AUTO,
        "mt",
        "float",
        "Time between failures",
        "Training",
        "Mean time between failures of one instance that stop the whole job. Auto takes the published figure of a "
        "large training run.",
        minimum=1,
        maximum=1e9,
        unit="h",
        unset=AUTO,
    )
    checkpoint_bandwidth: float | str = scenario_field(
        AUTO,
        "ck",
        "float",
        "Checkpoint bandwidth",
        "Training",
        "Rate at which one instance writes its share of a checkpoint while the job waits. Auto takes a published "
        "storage system's share.",
        minimum=0.001,
        maximum=100_000,
        unit="GB/s",
        unset=AUTO,
    )
    restart_time: float | str = scenario_field(
        AUTO,
        "rs",
        "float",
        "Restart time",
        "Training",
        "From a failure until training goes on from the last checkpoint. Auto takes a published figure.",
        minimum=0,
        maximum=1e6,
        unit="s",
        unset=AUTO,
    )
