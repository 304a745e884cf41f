"""Parallel plans as float64 columns, one (0-d) or many, and the rules that they must obey to mean anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trn2model.errors import InvalidInputError, InvalidPlanError
from trn2model.specs.model import ModelSpec, Moe

#: Group of a layer's operators whose outputs a scenario may keep, and the operators that belong to it.
SAVEABLE: Final = {
    "norm": ("attention_norm", "mlp_norm"),
    "qkv": ("qkv", "qk_norm", "rotary", "query_down", "query_up", "kv_down", "kv_up"),
    "attention": ("attention",),
    "output": ("output", "attention_residual"),
    "up": ("router", "route", "up", "gate_up", "expert_up", "expert_gate_up", "shared_up", "shared_gate_up"),
    "activation": ("activation", "expert_activation", "shared_activation"),
    "down": ("down", "expert_down", "shared_down", "combine", "mlp_residual"),
}

EVERYTHING: Final = frozenset(SAVEABLE)


def saved_groups(recompute: str, saved_operators: str | None) -> frozenset[str]:
    """Groups whose outputs are kept.

    Examples
    --------
    >>> sorted(saved_groups("full", "qkv,attention"))
    ['attention', 'qkv']
    """
    if recompute != "full":
        return EVERYTHING
    return frozenset(saved_operators.split(",")) if saved_operators else frozenset()


def redone_operators(saved: frozenset[str]) -> frozenset[str]:
    """Operators of a layer that run again because their outputs are not kept."""
    return frozenset(name for group, names in SAVEABLE.items() if group not in saved for name in names)


Column = NDArray[np.float64]

#: columns that are given; `num_microbatches` follows from them
PLAN_COLUMNS: Final = (
    "tp",
    "cp",
    "ep",
    "dp",
    "pp",
    "zero",
    "interleave",
    "microbatch_size",
    "global_batch_size",
    "sequence_length",
)
MAX_TOKENS: Final = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ParallelPlan:
    """Degrees, batch and sequence of one plan or of many; all columns have one shape (...).

    float64 holds every allowed integer exactly and does not overflow in FLOP counts.
    """

    tp: Column  # tensor-parallel ranks
    cp: Column  # context-parallel ranks
    ep: Column  # expert-parallel ranks
    dp: Column  # data-parallel replicas
    pp: Column  # pipeline stages
    zero: Column  # stage of ZeRO, 0 to 3
    interleave: Column  # chunks per stage
    microbatch_size: Column  # [sequence]
    global_batch_size: Column  # [sequence]
    sequence_length: Column  # [token]
    num_ranks: Column  # tp·cp·ep·dp·pp, the ranks in use
    num_microbatches: Column  # per replica and step

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every column."""
        return self.tp.shape

    def to_dict(self) -> dict[str, Any]:
        """Columns as JSON values."""
        names = (*PLAN_COLUMNS, "num_ranks", "num_microbatches")
        return {name: np.asarray(getattr(self, name)).astype(np.int64).tolist() for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """What is served: tokens per request and requests per replica; the columns broadcast against those of the plan."""

    input_tokens: Column  # of a prompt
    output_tokens: Column  # of an answer
    concurrency: Column  # requests that a replica runs at once
    compiled_batch: Column  # sequences that the decode graph computes for them
    prefill_tokens: Column  # prompt tokens that miss the prefix cache
    context_bucket: Column  # prompt tokens that the prefill graphs compute for them
    prefill_chunk: float  # 0: prompts are not cut [token]
    draft_tokens: float  # guessed per decode step [token]
    acceptance: float  # probability that a guess holds [1]


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What model, machine and schedule allow of a plan; all that the rules of validity read besides the plan."""

    model_name: str  # for messages
    num_heads: int  # greatest common divisor over the kinds of layers
    num_layers: int  # of the model
    num_experts: int  # greatest common divisor over the MoE layers; 1 for a dense model
    num_ranks: int  # of the machine
    pipeline_schedule: str = "1f1b"  # 1f1b, gpipe or zb-h1
    draft_heads: int = 0  # as num_heads, of the draft model; 0 without one
    prefill_replicas: int = 0  # replicas set apart for prefill


def parallel_plan(**given: ArrayLike) -> ParallelPlan:
    r"""Plan from the columns named in `PLAN_COLUMNS`, broadcast to one shape.

    .. math:: n_{ranks} = tp \cdot cp \cdot ep \cdot dp \cdot pp,
              \quad n_{microbatches} = \frac{B}{dp \cdot ep \cdot b}

    Raises InvalidInputError (the columns do not broadcast to one shape).
    """
    columns = broadcast_columns(given)
    replicas = columns["dp"] * columns["ep"]
    num_ranks = columns["tp"] * columns["cp"] * replicas * columns["pp"]
    num_microbatches = columns["global_batch_size"] / (replicas * columns["microbatch_size"])
    return ParallelPlan(**columns, num_ranks=np.asarray(num_ranks), num_microbatches=np.asarray(num_microbatches))


def broadcast_columns(given: Mapping[str, ArrayLike]) -> dict[str, Column]:
    """Columns as float64 of one shape.

    Raises InvalidInputError (the shapes do not broadcast).
    """
    columns = {name: np.asarray(value, dtype=np.float64) for name, value in given.items()}
    shape = common_shape({name: column.shape for name, column in columns.items()})
    return {name: np.broadcast_to(column, shape) for name, column in columns.items()} if shape else columns


def common_shape(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Shape to which columns broadcast.

    Raises InvalidInputError (there is none; the message names every column that holds an array).
    """
    given = {name: shape for name, shape in shapes.items() if shape}
    if not given:
        return ()
    try:
        return np.broadcast_shapes(*given.values())
    except ValueError:
        remedy = "give every array one entry per plan"
        raise InvalidInputError(", ".join(given), tuple(given.values()), "arrays of a common shape", remedy) from None


@lru_cache(maxsize=512)
def plan_limits(
    model: ModelSpec,
    num_ranks: int,
    pipeline_schedule: str = "1f1b",
    *,
    draft: ModelSpec | None = None,
    prefill_replicas: int = 0,
) -> PlanLimits:
    """Limits that a model on a number of ranks sets to a plan."""
    experts = [kind.feed_forward.num_experts for kind in model.layer_kinds if isinstance(kind.feed_forward, Moe)]
    return PlanLimits(
        model_name=model.name,
        num_heads=_common_heads(model),
        num_layers=model.num_layers,
        num_experts=gcd(*experts) if experts else 1,
        num_ranks=num_ranks,
        pipeline_schedule=pipeline_schedule,
        draft_heads=_common_heads(draft) if draft else 0,
        prefill_replicas=prefill_replicas,
    )


def _common_heads(model: ModelSpec) -> int:
    return gcd(*(kind.attention.num_heads for kind in model.layer_kinds))


Workload = Literal["train", "serve"]
WORKLOADS: Final[tuple[Workload, ...]] = ("train", "serve")
BOTH: Final = WORKLOADS
TRAIN: Final = ("train",)
SERVE: Final = ("serve",)

Row = dict[str, int]
Complaint = tuple[str, str, str]  # field, what is allowed, remedy


class Rule(NamedTuple):
    """One condition: which rows break it, and what to say about the first of them."""

    reason: str
    workloads: tuple[str, ...]
    broken: Callable[[ParallelPlan, PlanLimits], Any]
    complain: Callable[[Row, PlanLimits], Complaint]


class RequestRule(NamedTuple):
    """As `Rule`, for the requests that are served."""

    reason: str
    broken: Callable[[Requests], Any]
    complain: Callable[[Row], Complaint]


class AutoDegree(int):
    """Degree that the user left on auto: a number that prints where it comes from."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Print the number and who chose it."""
        return f"{int(self)} (chosen by auto)"


def check_plan(plan: ParallelPlan, limits: PlanLimits, workload: Workload, auto: Collection[str] = ()) -> None:
    """Raise on the first plan that means nothing.

    Raises InvalidPlanError (a rule is broken; the message names field, value, what is allowed and the remedy).
    """
    for rule in RULES:
        if workload in rule.workloads:
            broken = np.asarray(rule.broken(plan, limits))
            if broken.any():
                row = _first(plan, broken)
                field, allowed, remedy = rule.complain(row, limits)
                if field in auto:
                    raise InvalidPlanError(field, AutoDegree(row[field]), allowed, remedy)
                if rule.reason == "batch" and "dp" in auto:
                    allowed = f"{allowed}, where auto chose dp = {row['dp']}"
                raise InvalidPlanError(field, row[field], allowed, remedy)


def check_requests(requests: Requests) -> None:
    """Raise on requests that the graphs they run on cannot hold.

    Raises InvalidPlanError (a rule is broken).
    """
    for rule in REQUEST_RULES:
        broken = np.asarray(rule.broken(requests))
        if broken.any():
            row = _first(requests, broken)
            field, allowed, remedy = rule.complain(row)
            raise InvalidPlanError(field, row[field], allowed, remedy)


def _first(columns: ParallelPlan | Requests, broken: NDArray[np.bool_]) -> Row:
    index = np.flatnonzero(broken)[0]
    values = {name: getattr(columns, name) for name in type(columns).__slots__}
    return {
        name: int(np.broadcast_to(value, broken.shape).flat[index])
        for name, value in values.items()
        if np.all(np.isfinite(value))
    }


def _indivisible(whole: Column | float, part: Column) -> NDArray[np.bool_]:
    return np.not_equal(np.remainder(whole, part), 0.0)


def _slots(plan: ParallelPlan) -> Column:
    return plan.dp * plan.ep * plan.microbatch_size


def _divisors(number: int) -> str:
    return ", ".join(str(n) for n in range(1, number + 1) if number % n == 0)


def _heads(_row: Row, limits: PlanLimits) -> Complaint:
    heads = limits.num_heads
    allowed = f"a divisor of the {heads} attention heads of {limits.model_name} ({_divisors(heads)})"
    return "tp", allowed, "choose one of these for tp"


def _stages(row: Row, limits: PlanLimits) -> Complaint:
    allowed = f"pp x interleave up to the {limits.num_layers} layers of {limits.model_name}"
    return "pp", allowed, f"lower pp or interleave (now {row['pp']} x {row['interleave']})"


def _serving_stages(_row: Row, limits: PlanLimits) -> Complaint:
    return "pp", f"up to the {limits.num_layers} layers of {limits.model_name}", "lower pp"


def _experts(_row: Row, limits: PlanLimits) -> Complaint:
    if limits.num_experts == 1:
        return "ep", f"1, because {limits.model_name} is dense", "set ep to 1 or choose a mixture-of-experts model"
    experts = limits.num_experts
    return (
        "ep",
        f"a divisor of the {experts} experts of {limits.model_name} ({_divisors(experts)})",
        "choose one of these",
    )


def _batch(row: Row, _limits: PlanLimits) -> Complaint:
    slots = row["dp"] * row["ep"] * row["microbatch_size"]
    product = f"dp x ep x microbatch_size = {row['dp']} x {row['ep']} x {row['microbatch_size']} = {slots}"
    batch = row["global_batch_size"]
    if row["dp"] * row["ep"] > batch:
        field = "dp" if row["dp"] >= row["ep"] else "ep"
        allowed = f"dp x ep up to global_batch_size = {batch} (now {row['dp']} x {row['ep']})"
        return field, allowed, f"lower {field} or raise global_batch_size to a multiple of {slots}"
    nearest = max(slots, round(batch / slots) * slots)
    return "global_batch_size", f"a multiple of {product}", f"set global_batch_size to {nearest}, or change dp"


def _sequence(row: Row, _limits: PlanLimits) -> Complaint:
    return "cp", f"a divisor of sequence_length = {row['sequence_length']}", "change cp or sequence_length"


def _rounds(row: Row, _limits: PlanLimits) -> Complaint:
    allowed = f"1 unless the {row['num_microbatches']} microbatches per replica are a multiple of pp = {row['pp']}"
    return "interleave", allowed, "set interleave to 1 or change global_batch_size"


def _schedule(_row: Row, limits: PlanLimits) -> Complaint:
    return "interleave", f"1 with pipeline_schedule = {limits.pipeline_schedule}", "set pipeline_schedule to 1f1b"


def _ranks(row: Row, limits: PlanLimits) -> Complaint:
    degrees = ("tp", "cp", "ep", "dp", "pp")
    largest = max(degrees, key=lambda name: row[name])
    product = " x ".join(str(row[name]) for name in degrees)
    allowed = f"tp x cp x ep x dp x pp up to the {limits.num_ranks} ranks of the machine (now {product})"
    return largest, allowed, f"lower {largest} or raise count"


def _decode_replicas(_row: Row, limits: PlanLimits) -> Complaint:
    allowed = f"more than prefill_replicas = {limits.prefill_replicas}, so that a replica is left to decode"
    return "dp", allowed, "raise dp (or lower tp), or lower prefill_replicas"


def _graph_batch(row: Row) -> Complaint:
    return "compiled_batch", f"at least concurrency = {row['concurrency']}", "raise compiled_batch or lower concurrency"


def _graph_context(row: Row) -> Complaint:
    allowed = f"at least the {row['prefill_tokens']} prompt tokens that are not in the prefix cache"
    return "context_bucket", allowed, "raise context_bucket or lower input_tokens"


def _context(_row: Row) -> Complaint:
    allowed = f"input_tokens + output_tokens up to {MAX_TOKENS:,}"
    return "input_tokens", allowed, "lower input_tokens or output_tokens"


RULES: Final[tuple[Rule, ...]] = (
    Rule("tp_heads", BOTH, lambda plan, limits: _indivisible(limits.num_heads, plan.tp), _heads),
    Rule("pp_layers", TRAIN, lambda plan, limits: plan.pp * plan.interleave > limits.num_layers, _stages),
    Rule("pp_layers", SERVE, lambda plan, limits: plan.pp > limits.num_layers, _serving_stages),
    Rule("ep_experts", BOTH, lambda plan, limits: _indivisible(limits.num_experts, plan.ep), _experts),
    Rule("cp_sequence", TRAIN, lambda plan, _limits: _indivisible(plan.sequence_length, plan.cp), _sequence),
    Rule("batch", TRAIN, lambda plan, _limits: _indivisible(plan.global_batch_size, _slots(plan)), _batch),
    Rule(
        "interleave_schedule",
        TRAIN,
        lambda plan, limits: (plan.interleave > 1) & (limits.pipeline_schedule != "1f1b"),
        _schedule,
    ),
    Rule(
        "interleave_rounds",
        TRAIN,
        lambda plan, _limits: (plan.interleave > 1) & (plan.pp > 1) & _indivisible(plan.num_microbatches, plan.pp),
        _rounds,
    ),
    Rule("dp_prefill_replicas", SERVE, lambda plan, limits: plan.dp <= limits.prefill_replicas, _decode_replicas),
    Rule("ranks", BOTH, lambda plan, limits: plan.num_ranks > limits.num_ranks, _ranks),
)

REQUEST_RULES: Final[tuple[RequestRule, ...]] = (
    RequestRule("compiled_batch", lambda requests: requests.concurrency > requests.compiled_batch, _graph_batch),
    RequestRule("context_bucket", lambda requests: requests.prefill_tokens > requests.context_bucket, _graph_context),
    RequestRule("tokens", lambda requests: requests.input_tokens + requests.output_tokens > MAX_TOKENS, _context),
)
