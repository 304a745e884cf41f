"""First part of the scenario table: model, system and parallel plan."""

# ruff: noqa: RUF009 (scenario_field wraps dataclasses.field)

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn2model.specs import catalog
from trn2model.specs.fields import AUTO, AXES, scenario_field, words
from trn2model.specs.model import ModelSpec

MAX_DEGREE: Final = 1024

#: one integer, or an integer array with one entry per plan
Integers: TypeAlias = int | NDArray[np.int64]
#: as `Integers`, or "auto"
AutoIntegers: TypeAlias = int | str | NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanFields:
    """Fields that say what runs on which machine and how it is cut."""

    model: str | ModelSpec = scenario_field(
        "llama-3.1-70b",
        "m",
        "name",
        "Model",
        "Model",
        "Transformer to run: a catalog name, or a model of your own read from a Hugging Face config.json.",
        choices=catalog.model_names,
    )
    system: str = scenario_field(
        "trn2-ultraserver",
        "s",
        "name",
        "System",
        "System",
        "Machine that is rented as one unit: an instance, or an UltraServer of four instances.",
        choices=catalog.system_names,
    )
    count: int = scenario_field(
        1,
        "n",
        "int",
        "Systems",
        "System",
        "How many of that system work together, joined by EFA.",
        minimum=1,
        maximum=1024,
    )
    lnc: int = scenario_field(
        2,
        "lnc",
        "int",
        "Logical NeuronCore size",
        "System",
        "Physical NeuronCores that act as one rank: 2 gives 4 ranks per Trainium2 chip, 1 gives 8. Other chips "
        "ignore it.",
        minimum=1,
        maximum=2,
    )
    price_option: str = scenario_field(
        AUTO,
        "po",
        "choice",
        "Price option",
        "System",
        "How the machine is paid for. Left on auto, the option that is usual for the system is taken.",
        unset=AUTO,
        choices=words("capacity-block", "on-demand", "spot", "reserved"),
    )
    tp: AutoIntegers = scenario_field(
        AUTO,
        "tp",
        "int",
        "Tensor parallel (tp)",
        "Parallelism",
        "Ranks that share every matrix of a layer; it must divide the attention heads. Auto takes 32 on Trn2 at LNC 2 "
        "and on Trn1, 64 at LNC 1, 8 on GPUs, or the largest power of two below that fits heads and ranks.",
        minimum=1,
        maximum=MAX_DEGREE,
        unit="ranks",
        unset=AUTO,
        plan=True,
    )
    pp: Integers = scenario_field(
        1,
        "pp",
        "int",
        "Pipeline parallel (pp)",
        "Parallelism",
        "Stages into which the layers are cut, one after another.",
        minimum=1,
        maximum=MAX_DEGREE,
        unit="stages",
        plan=True,
    )
    cp: Integers = scenario_field(
        1,
        "cp",
        "int",
        "Context parallel (cp)",
        "Parallelism",
        "Ranks that share one sequence by cutting it into pieces; it must divide the sequence length.",
        minimum=1,
        maximum=MAX_DEGREE,
        unit="ranks",
        plan=True,
    )
    ep: Integers = scenario_field(
        1,
        "ep",
        "int",
        "Expert parallel (ep)",
        "Parallelism",
        "Ranks over which the experts of a mixture-of-experts model are spread; dense models need 1.",
        minimum=1,
        maximum=MAX_DEGREE,
        unit="ranks",
        plan=True,
    )
    dp: AutoIntegers = scenario_field(
        AUTO,
        "dp",
        "int",
        "Data parallel (dp)",
        "Parallelism",
        "Replicas that share the batch when training, or answer different requests when serving. Auto fills the ranks "
        "that the other degrees leave.",
        minimum=1,
        maximum=65536,
        unit="replicas",
        unset=AUTO,
        plan=True,
    )
    sequence_parallel: bool = scenario_field(
        True,
        "sp",
        "bool",
        "Sequence parallel",
        "Parallelism",
        "Splits norms, dropout and residuals over the tensor-parallel ranks by tokens: less activation memory for the "
        "same bytes on the links.",
    )
    zero: Integers = scenario_field(
        1,
        "z",
        "int",
        "ZeRO stage",
        "Parallelism",
        "What data-parallel replicas share instead of copying: 0 nothing, 1 optimizer state, 2 gradients too, 3 "
        "weights too (FSDP).",
        minimum=0,
        maximum=3,
        plan=True,
    )
    zero_group: str = scenario_field(
        "all",
        "zg",
        "choice",
        "ZeRO group",
        "Parallelism",
        "Replicas among which ZeRO shards: all of them, those inside one NeuronLink or NVLink domain, or those inside "
        "one instance; outside the group, states are replicated and gradients reduced once more.",
        choices=words("all", "domain", "instance"),
    )
    fsdp_prefetch: int = scenario_field(
        1,
        "fp",
        "int",
        "FSDP prefetch",
        "Parallelism",
        "Layers whose weights ZeRO 3 gathers ahead of their use; 0 gathers each layer only when it is needed.",
        minimum=0,
        maximum=64,
        unit="layers",
    )
    interleave: Integers = scenario_field(
        1,
        "v",
        "int",
        "Interleave",
        "Parallelism",
        "Virtual stages per pipeline rank: more of them shrink the bubble and send more between stages.",
        minimum=1,
        maximum=256,
        plan=True,
    )
    pipeline_schedule: str = scenario_field(
        "1f1b",
        "ps",
        "choice",
        "Pipeline schedule",
        "Parallelism",
        "Order of forward and backward passes over the stages: one forward one backward, all forward first (gpipe), or "
        "zero-bubble with weight gradients filling the gaps.",
        choices=words("1f1b", "gpipe", "zb-h1"),
    )
    context_parallel_method: str = scenario_field(
        "ring",
        "cm",
        "choice",
        "Context parallel method",
        "Parallelism",
        "How the pieces of a sequence see each other's keys and values: passed around a ring, or gathered at once.",
        choices=words("ring", "all-gather"),
    )
    placement: str = scenario_field(
        ",".join(AXES),
        "pl",
        "order",
        "Placement",
        "Parallelism",
        "Order in which the parallel axes fill the machine, innermost first: the first axis gets the cores of one "
        "chip, the last one crosses instances.",
    )
