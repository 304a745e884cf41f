"""What a source leaves out (facts) and what a row may be used for (verdicts).

Facts fill blank columns, in order. Of the verdicts the first whose condition holds decides; a row that none holds may
be fitted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from trn2model.validation.printed import Row, Value, says

Raw = Mapping[str, str]
#: whether it holds, the use, and why the row is not fitted on
Verdict = tuple[bool, str, str]
_EXCLUDED: Final = "excluded"
_BOUND: Final = "bound"
_CHECK: Final = "check"
_STALLS: Final = "a client's time per token under load includes prefill stalls"
_OWN_KERNEL: Final = "not the kernel one would use"
_LAUNCH: Final = "the launch floor is more than half of it"
_FULL: Final = "more requests than the memory holds: the server ran fewer at a time"
_BEST: Final = "best of a sweep over sizes"


def fill(table: str, row: Row, raw: Raw) -> None:
    """Fill what the source leaves out; columns it does not state are listed in `assumed`."""
    row["assumed"] = ""
    _FACTS[table](row, raw)


def verdict(table: str, row: Row, raw: Raw) -> tuple[str, str]:
    """Use of a row, and why it is not fitted on."""
    outside = (bool(row["outside"]), _EXCLUDED, str(row["outside"]))
    found = (outside, *_VERDICTS[table](row, raw))
    return next(((use, reason) for holds, use, reason in found if holds), ("fit", ""))


def _state(row: Row, **values: Value) -> None:
    """Fill blank columns with what the source says elsewhere."""
    row |= {name: value for name, value in values.items() if row.get(name) is None}


def _assume(row: Row, **values: Value) -> None:
    """Fill blank columns that the source does not state."""
    _overrule(row, **{name: value for name, value in values.items() if row.get(name) is None})


def _overrule(row: Row, **values: Value) -> None:
    """Set columns, whatever was read, to what the source does not state."""
    row |= values
    row["assumed"] = " ".join(dict.fromkeys((*str(row["assumed"]).split(), *values)))


def _least(value: Value, bound: float) -> bool:
    return isinstance(value, float | int) and value >= bound


def _most(value: Value, bound: float) -> bool:
    return isinstance(value, float | int) and value <= bound


def _train_facts(row: Row, raw: Raw) -> None:
    stack, dataset, notes = row["stack"], row["dataset"], raw.get("notes")
    _plan_facts(row, raw)
    if stack == "axlearn" and says(notes, "remat saves"):
        _assume(row, recompute="selective", microbatch_size=1.0)
    if stack in ("nemo", "megatron-bridge"):
        _assume(row, recompute="none")
    if stack == "neuronx-distributed":
        _assume(row, recompute="selective")
    if dataset == "megatron-sc21-table1":
        _assume(row, microbatch_size=1.0)
    if says(dataset, "megatron-sc21|korthikanti"):
        _state(row, attention_kernel="naive")
    early = stack == "neuronx-distributed" and says(row["version"], r"Neuron 2\.1\d")
    _assume(row, attention_kernel="naive" if early or stack == "neuronx-nemo-megatron" else "flash")
    _assume(row, optimizer="adamw-fp32")
    if stack == "nemo" and says(notes, "^LoRA"):
        _assume(row, lora_rank=32.0)
    _state(row, lora_rank=0.0)
    if says(row["system"], "p4de") and says(dataset, "llm-foundry|megatron-sc21"):
        _state(row, nic_bandwidth=25e9)
    if says(row["system"], "p4de") and says(dataset, "korthikanti"):
        _assume(row, nic_bandwidth=25e9)


def _plan_facts(row: Row, raw: Raw) -> None:
    stack, dataset, tp = row["stack"], row["dataset"], row["tp"]
    if tp is not None:
        _state(row, cp=1.0, ep=1.0)
    if says(stack, "^neuronx"):
        _state(row, pp=1.0)
    if stack in ("neuronx-nemo-megatron", "megatron-lm", "optimum-neuron"):
        _assume(row, zero=0.0)
    if says(raw.get("precision"), "FSDP"):
        row["zero"] = 3.0
    if stack in ("neuronx-distributed", "nemo", "megatron-bridge"):
        _assume(row, zero=1.0)
    recomputed = says(raw.get("recompute"), "^full$") and stack == "megatron-lm"
    if says(dataset, "megatron-sc21") or _most(tp, 1) or recomputed:
        _state(row, sequence_parallel="false")
    if _least(tp, 2):
        _assume(row, sequence_parallel="true")


def _train_verdicts(row: Row, raw: Raw) -> Iterable[Verdict]:
    notes, unit, kind = raw.get("notes"), raw.get("throughput_unit"), raw.get("value_kind")
    stack, dataset = row["stack"], row["dataset"]
    pairs = "preference tuning: each example is a chosen and a rejected sequence"
    doubted = "the source doubts its own figure: with attention it implies more than the peak"
    experts = "Megatron spreads experts over the tensor-parallel ranks too; our axes do not"
    return (
        (says(notes, r"chosen\+rejected"), _EXCLUDED, pairs),
        (says(raw.get("trust"), "code transcription"), _EXCLUDED, "the same rows stand in the table of the paper"),
        (says(kind, "bar chart"), _EXCLUDED, "a share read off a bar chart"),
        (says(kind, "analytical"), _CHECK, "closed form of the paper, not a measurement"),
        (says(unit, "MFU"), _EXCLUDED, "a utilization only; denominators differ between sources"),
        (says(unit, "time-to-train"), _EXCLUDED, "time to train, not a step time"),
        (not unit and not raw.get("paper_value"), _EXCLUDED, "no throughput is given"),
        (says(unit, "one NeuronCore"), _EXCLUDED, "one core of the chip was used"),
        (row["sequence_length"] is None, _EXCLUDED, "sequence length not stated"),
        (row["global_batch_size"] is None, _EXCLUDED, "batch not stated"),
        (row["tp"] is None, _EXCLUDED, "parallel plan not stated"),
        (row["microbatch_size"] is None, _EXCLUDED, "microbatch not stated"),
        (row["recompute"] is None, _EXCLUDED, "recompute not stated"),
        (row["measured"] is None, _EXCLUDED, "no step time follows from what is printed"),
        (row["trust"] == "C", _BOUND, "trust class C"),
        (dataset == "korthikanti-figures", _CHECK, "from a printed utilization; batch and interleave assumed"),
        (dataset == "megatron-sc21-table1", _CHECK, "microbatch and interleave not stated"),
        (says(notes, "^DERIVED"), _CHECK, "derived from a published ratio"),
        (stack == "nemo" and _least(row["lora_rank"], 1), _CHECK, "rank and targets of the adapters not stated"),
        (says(notes, "something in FLOP model"), _CHECK, doubted),
        (stack == "megatron-bridge" and _least(row["ep"], 2), _CHECK, experts),
        (says(raw.get("model"), "token drop"), _CHECK, "tokens above the experts' capacity are dropped"),
    )


def _serve_facts(row: Row, raw: Raw) -> None:
    notes, batch, dataset = raw.get("notes", ""), raw.get("batch", ""), row["dataset"]
    if says(row["system"], "trn2"):
        _assume(row, lnc=2.0)
    _assume(row, weight_dtype="bf16")
    if row["stack"] == "tensorrt-llm" and row["weight_dtype"] == "fp8":
        _assume(row, kv_dtype="fp8")
    _assume(row, kv_dtype="bf16", output_tokens=128.0)
    if says(dataset, "neuron-benchmarks") and says(notes, "^Batch"):
        row["figure"] = "whole batch"
    elif says(notes, "PER REQUEST"):
        row["figure"] = "per request"
    _statistic(row, notes)
    if says(notes, "without TKG|^baseline|no kernels|no-kernel"):
        _state(row, kernels="none")
    if says(notes, "QKV NKI kernel|^QKV kernel"):
        _state(row, kernels="qkv")
    if says(notes, r"TKG kernel|best kernel|QKV\+TKG|SDK 2\.29 best"):
        _state(row, kernels="tkg")
    if says(raw.get("sw_version"), "fused_qkv"):
        _state(row, kernels="qkv")
    if dataset == "optimum-neuron" and says(batch, r"^1 \(synchronous\)$") and says(raw.get("instance"), r"DP\d"):
        _overrule(row, compiled_batch=32.0)
    if says(dataset, "seed-oss") and says(batch, "compiled batch graph"):
        _overrule(row, compiled_batch=40.0)
    if says(dataset, "torchneuronx") and says(row["system"], "inf2") and says(batch, "^concurrency"):
        _overrule(row, compiled_batch=32.0)


def _statistic(row: Row, notes: str) -> None:
    """What the printed latencies are over the requests."""
    if says(notes, r"\bmeans?\b"):
        row["statistic"] = "mean"
    if row["dataset"] == "neuronstuff-small-models" and _least(row["concurrency"], 2):
        _overrule(row, statistic="mean")
    if says(notes, "p99 lines"):
        row["statistic"] = "p99"
    if says(notes, "tpot derived|per-sequence TPOT here derived"):
        row["statistic"] = "derived"


def _serve_verdicts(row: Row, raw: Raw) -> Iterable[Verdict]:
    notes, speculation = raw.get("notes"), raw.get("speculation")
    drafted, throughput = _least(row["draft_tokens"], 1), row["metric"] == "output_tokens_per_s"
    per_token = row["metric"] == "tpot"
    own = {"ttft": _ttft_verdicts, "tpot": _tpot_verdicts, "output_tokens_per_s": _throughput_verdicts}
    old = "superseded; latency per token without the first token told apart"
    axes = "experts and attention are cut over the same ranks; our axes do not"
    return (
        (says(notes, "old column"), _EXCLUDED, old),
        (row["measured"] is None, _EXCLUDED, "neither latency nor throughput is printed"),
        (row["tp"] is None, _EXCLUDED, "tensor-parallel degree not stated"),
        (row["input_tokens"] is None, _EXCLUDED, "prompt length not stated"),
        (says(notes, "suspect|inconsistent"), _EXCLUDED, "the public table marks the figure as suspect"),
        (drafted and row["acceptance"] is None, _EXCLUDED, "acceptance of the draft's tokens not stated"),
        (says(speculation, "^unknown$|baseline, any prompt|^draft "), _EXCLUDED, "speculation not described"),
        (throughput and says(notes, "USE TPOT"), _EXCLUDED, "aggregate over the wall time, with queueing"),
        (row["trust"] == "C", _BOUND, "trust class C: unoptimised, overhead or context incomplete"),
        *own[str(row["metric"])](row, raw),
        (says(raw.get("trust"), "superseded"), _CHECK, "superseded by the current document"),
        (says(notes, "illustrative"), _CHECK, "illustrative, as its source says"),
        (drafted, _CHECK, "speculative decoding"),
        (row["statistic"] == "p99", _CHECK, "the 99th percentile"),
        (per_token and row["statistic"] == "derived", _CHECK, "derived from throughput"),
        (per_token and _holds_stalls(row, raw), _CHECK, _STALLS),
        (row["model"] == "mimo-v2-flash", _CHECK, axes),
        (says(raw.get("lnc"), "not stated"), _CHECK, "logical core size not stated"),
    )


def _ttft_verdicts(row: Row, raw: Raw) -> Iterable[Verdict]:
    several = _least(row["concurrency"], 2)
    whole = several and row.get("figure") == "whole batch"
    return (
        (says(raw.get("model"), "VL|Omni"), _BOUND, "the vision or audio encoder may be part of it"),
        (whole, _CHECK, "first token of a batch prefilled in one graph"),
        (several, _BOUND, "above concurrency 1 a client's first token includes waiting"),
        (row["concurrency"] is None, _EXCLUDED, "concurrency not stated"),
    )


def _tpot_verdicts(row: Row, _raw: Raw) -> Iterable[Verdict]:
    return (
        (_least(row.get("memory_demand"), 0.9), _EXCLUDED, _FULL),
        (row["concurrency"] is None, _EXCLUDED, "concurrency not stated"),
    )


def _holds_stalls(row: Row, raw: Raw) -> bool:
    """Whether a client's time per token waits for the prompts of others."""
    dataset = row["dataset"]
    if dataset == "optimum-neuron":
        return says(raw.get("batch"), "^max")
    fixed = says(dataset, "seed-oss") and says(raw.get("notes"), "^range-ratio 0")
    loaded = says(dataset, "torchneuronx|nxdi-sarvam|nxdi-contrib|eagle3|^neuronstuff$")
    return _least(row["concurrency"], 2) and (fixed or loaded)


def _throughput_verdicts(row: Row, raw: Raw) -> Iterable[Verdict]:
    unknown = row["concurrency"] is None
    return (
        (_least(row.get("memory_demand"), 0.9), _EXCLUDED, _FULL),
        (unknown and says(raw.get("batch"), "^max"), _CHECK, "throughput at the best concurrency"),
        (unknown, _EXCLUDED, "concurrency not stated"),
        (True, _CHECK, "throughput contains prefill, queueing and host time"),
    )


def _collective_facts(row: Row, raw: Raw) -> None:
    instance, layer, cookbook = raw.get("instance"), raw.get("layer"), row["dataset"] == "collectives-cookbook"
    if says(raw.get("notes"), "one per node"):
        _state(row, ranks_per_machine=1.0)
    for ranks in (2.0, 4.0):
        if says(instance, rf"\({ranks:g} ranks/node"):
            _state(row, ranks_per_machine=ranks)
    for launch in (100e-6, 145e-6):
        if cookbook and row["layer"] == "kernel" and says(layer, f"~{1e6 * launch:.0f}us"):
            _state(row, launch_time=launch)
    if row["dataset"] == "xpu-perf" and row["layer"] == "framework" and says(raw.get("notes"), "105-118 us"):
        _state(row, launch_time=110e-6)


def _collective_verdicts(row: Row, raw: Raw) -> Iterable[Verdict]:
    inferred, framework = says(raw.get("instance"), "host/launch dominated"), row["layer"] == "framework"
    large = _least(row["bytes"], 2.0**26) and row["op"] == "all_reduce"
    derived = says(raw.get("layer"), "DERIVED")
    return (
        (row["op"] is None, _EXCLUDED, "operation not modelled, or not stated"),
        (row["ranks"] is None, _EXCLUDED, "ranks not stated"),
        (row["measured"] is None, _EXCLUDED, "no time and no peak bandwidth is printed"),
        (says(raw.get("notes"), "concurrent streams"), _EXCLUDED, "two collectives ran at the same time"),
        (says(raw.get("source"), r"collectives\.rst|evaluation\.tex"), _EXCLUDED, "no message size"),
        (derived, _EXCLUDED, "difference of two graphs; operand size not stated"),
        (row["metric"] == "busbw", _CHECK, _BEST),
        (inferred and _most(row["bytes"], 2.0**27), _BOUND, "a launch floor of 300 us dominates"),
        (inferred, _CHECK, "machine inferred; a launch floor of 300 us is inside"),
        (framework and large, _CHECK, "framework time; the launch is small at this size"),
        (framework, _BOUND, "framework time: dispatch dominates"),
        (_least(row["launch_share"], 0.5), _BOUND, _LAUNCH),
        (row["trust"] == "C", _BOUND, "trust class C"),
    )


def _gemm_facts(row: Row, raw: Raw) -> None:
    source, provider = raw.get("source"), raw.get("provider")
    compiled = says(provider, r"torch\.compile")
    if says(raw.get("notes"), "60 us eager"):
        _state(row, launch_time=60e-6)
    if says(source, "vendor_ops/NEURON") and compiled:
        _state(row, launch_time=100e-6)
    if says(source, "trn2-matmul-bench") and compiled:
        _assume(row, launch_time=100e-6)
    if says(source, "vendor_ops/NEURON") and says(provider, "^torch$") and raw.get("latency_us"):
        _assume(row, launch_time=60e-6)


def _gemm_verdicts(row: Row, raw: Raw) -> Iterable[Verdict]:
    unit, provider, shape = raw.get("unit_measured"), raw.get("provider"), raw.get("shape")
    bench, swept = row["dataset"] == "trn2-matmul-bench", says(shape, "best over sweep|largest|^large")
    wide = row["op"] == "gemm" and _least(row.get("n"), 200000) and _least(row.get("m"), 4000)
    slower = "contradicted: another source runs 2048^3 three times as fast on the same unit"
    crowded = "contradicted: another source finds no slowdown with all cores busy"
    halved = "rate halves once the result takes 2 GB, which no mechanism of the model explains"
    return (
        (row["measured"] is None, _EXCLUDED, "no time, rate or bandwidth is printed"),
        (says(raw.get("dtype"), "up-cast"), _EXCLUDED, "fp8 inputs were cast up: not an fp8 matmul"),
        (says(unit, "not stated|per nkigym|NKI kernel on"), _EXCLUDED, "cores not stated"),
        (says(unit, "TP64|TP8"), _EXCLUDED, "a whole step of a model, not an operator"),
        (says(raw.get("op"), "ratio|host|chain"), _EXCLUDED, "not an operator of the model"),
        (says(shape, "tile"), _EXCLUDED, "shape not described"),
        (says(provider, "torch-xla"), _BOUND, "graph launch of 600 to 700 us inside"),
        (says(provider, "unfused|half core|public XLA"), _BOUND, _OWN_KERNEL),
        (says(shape, "block flat"), _BOUND, _OWN_KERNEL),
        (says(raw.get("notes"), "no fused path|all dispatch"), _BOUND, "no fused kernel, or dispatch only"),
        (_least(row["launch_share"], 0.5), _BOUND, _LAUNCH),
        (row["trust"] == "C", _BOUND, "trust class C"),
        (says(raw.get("trust"), "secondary"), _CHECK, "approximate, quoted at second hand"),
        (row["metric"] == "bandwidth" and swept, _CHECK, _BEST),
        (bench and _most(row.get("m"), 2048), _CHECK, slower),
        (bench and _least(row["busy_share"], 1), _CHECK, crowded),
        (wide and says(row["system"], "trn2"), _CHECK, halved),
    )


_FACTS: Final[Mapping[str, Callable[[Row, Raw], None]]] = {
    "train": _train_facts,
    "serve": _serve_facts,
    "collective": _collective_facts,
    "gemm": _gemm_facts,
}
_VERDICTS: Final[Mapping[str, Callable[[Row, Raw], Iterable[Verdict]]]] = {
    "train": _train_verdicts,
    "serve": _serve_verdicts,
    "collective": _collective_verdicts,
    "gemm": _gemm_verdicts,
}
