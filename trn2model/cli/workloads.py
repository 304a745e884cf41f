"""Commands on a scenario: ``train``, ``serve`` and ``link``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from trn2model.cli.command import (
    Command,
    Outcome,
    add_scenario_arguments,
    columns,
    given_values,
    quantity_text,
    scenario_from,
    sections,
    share_text,
)
from trn2model.errors import InvalidInputError
from trn2model.model.estimate import estimate
from trn2model.model.result import to_json
from trn2model.model.serving.steady import estimate_serving
from trn2model.model.serving.sweeps import latency_violations, operating_point
from trn2model.simulate.queue import simulate_scenario
from trn2model.simulate.requests import parse_trace
from trn2model.specs.fields import AXES, NONE, FloatField, IntField
from trn2model.specs.link import encode, query_string
from trn2model.specs.provenance import MAX_CSV_BYTES, read_user_file
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import Scenario
from trn2model.text import bandwidth, capacity, count, duration, number_of_requests, percent, significant, traffic
from trn2model.units import from_si


def _train(arguments: argparse.Namespace) -> Outcome:
    document = estimate(scenario_from(arguments), "train").to_dict()
    return Outcome(document, lambda: training_text(document))


def training_text(document: Mapping[str, Any]) -> str:
    """Training estimate as text for the terminal."""
    return sections(
        [
            ("", scenario_text(document["scenario"])),
            ("", verdict_text(document)),
            ("", columns(_headline(document) + _cost(document["cost"]))),
            ("Time of one step, by part", parts_text(document["time"], document["step_time"], duration)),
            ("Memory of the fullest rank, by part", memory_text(document["memory"])),
            ("Communication of one rank over the step", communication_text(document["communication"])),
            ("The whole training run", columns(_run(document["run"]))),
            ("Assumptions", "\n".join(f"  - {line}" for line in document["assumptions"])),
        ]
    )


def scenario_text(scenario: Mapping[str, Any]) -> str:
    """Scenario in two lines."""
    numerics = f"{scenario['precision']} {scenario['sparsity']}"
    machine = f"{scenario['model']} on {scenario['count']} x {scenario['system']}, {numerics}"
    degrees = " ".join(f"{axis} {scenario[axis]}" for axis in AXES)
    batch = f"batch {scenario['global_batch_size']:,} x {scenario['sequence_length']:,} tokens"
    return f"{machine}, profile {scenario['profile']}\n{degrees}, microbatch {scenario['microbatch_size']}, {batch}"


def verdict_text(document: Mapping[str, Any]) -> str:
    """Whether the plan fits, and what is short if it does not."""
    if document["feasible"]:
        memory = document["memory"]
        return f"fits: {percent(memory['used_bytes'] / memory['capacity_bytes'])} of HBM"
    lines = []
    for violation in document["violations"]:
        demand, limit = (quantity_text(violation[name], violation["unit"]) for name in ("demand", "limit"))
        lines.append(f"does not fit: {violation['resource']} needs {demand} of {limit}; {violation['remedy']}")
    return "\n".join(lines) or "does not fit"


def parts_text(parts: Mapping[str, float], whole: float, write: Any) -> str:  # noqa: ANN401 (a function of one number)
    """Parts of a whole with their shares, largest first; parts of nothing are left out."""
    rows = [
        (name.replace("_", " "), write(part), share_text(part / whole))
        for name, part in sorted(parts.items(), key=lambda item: -item[1])
        if part
    ]
    return columns(rows, right=[1, 2], indent="  ")


def memory_text(memory: Mapping[str, Any]) -> str:
    """Memory of the fullest rank by part, and how much of its HBM that is."""
    total = {**memory["parts"], "used": memory["used_bytes"], "capacity": memory["capacity_bytes"]}
    rows = [(name, capacity(part), share_text(part / memory["capacity_bytes"])) for name, part in total.items() if part]
    return columns(rows, right=[1, 2], indent="  ")


def communication_text(uses: list[Mapping[str, Any]]) -> str:
    """Collectives by axis as a table."""
    if not uses:
        return ""
    rows = [("axis", "operation", "message", "algorithm", "link time", "exposed", "busbw")]
    for use in uses:
        times = (duration(use["link_time"]), duration(use["exposed_time"]))
        message = traffic(use["bytes"])
        rows.append((use["axis"], use["op"], message, str(use["algorithm"]), *times, bandwidth(use["busbw"])))
    return columns(rows, right=[2, 4, 5, 6], indent="  ")


def _headline(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    low, high = document["step_time_range"]
    return [
        ("step time", f"{duration(document['step_time'])} ({duration(low)} to {duration(high)})"),
        ("throughput", f"{count(document['tokens_per_s'])} tok/s"),
        ("per chip", f"{count(document['tokens_per_s_per_chip'])} tok/s"),
        ("MFU", f"{percent(document['mfu'])} of the dense peak"),
        ("HFU", percent(document["hfu"])),
        ("pipeline bubble", percent(document["bubble_fraction"])),
        ("HBM bandwidth used", percent(document["hbm_bandwidth_utilization"])),
        ("busiest link", percent(document["links"]["max_utilization"])),
    ]


def _run(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    cost = "not given: no public price" if run["cost_usd"] is None else f"{significant(run['cost_usd'])} USD"
    return [
        ("tokens", count(run["tokens"])),
        ("time", f"{significant(from_si(run['time'], 'h') / 24)} days"),
        ("cost", cost),
        ("goodput", f"{percent(run['goodput'])} with a failure every {significant(from_si(run['job_mtbf'], 'h'))} h"),
        ("checkpoint", f"{duration(run['checkpoint_time'])} every {duration(run['checkpoint_interval'])}"),
    ]


def _cost(cost: Mapping[str, float | None]) -> list[tuple[str, str]]:
    rent, per_million = cost["usd_per_hour"], cost["usd_per_million_tokens"]
    if rent is None or per_million is None:
        return [("cost", "not given: no public price for this option")]
    return [("rent", f"{significant(rent)} USD/h"), ("cost", f"{significant(per_million)} USD per million tokens")]


def _link(arguments: argparse.Namespace) -> Outcome:
    scenario = scenario_from(arguments)
    text = query_string(scenario)
    link = f"/?{text}" if text else "/"
    return Outcome({"link": link, "query_string": text, "parameters": encode(scenario)}, lambda: link)


TRAIN: Final = Command("train", "one training step: time, memory, communication, cost", add_scenario_arguments, _train)
LINK: Final = Command("link", "the dashboard's address for a scenario", add_scenario_arguments, _link)


_TTFT: Final = FloatField(
    "max_ttft", "Longest TTFT", "Inference", help="Longest time to first token to accept, in seconds",
    name="max_ttft", minimum=1e-9, maximum=1e9, unset=NONE,
)  # fmt: skip
_TPOT: Final = FloatField(
    "max_tpot", "Longest TPOT", "Inference",
    help="Longest time per output token to accept, prefill stalls included, in seconds",
    name="max_tpot", minimum=1e-9, maximum=1e9, unset=NONE,
)  # fmt: skip
_RATE: Final = FloatField(
    "rate", "Arrival rate", "Inference", help="Run a queue of Poisson arrivals at so many requests per second",
    name="rate", minimum=1e-9, maximum=1e9, unset=NONE,
)  # fmt: skip
_REQUESTS: Final = IntField(
    "requests", "Requests", "Inference", help="Requests in that queue",
    name="requests", default=1000, minimum=1, maximum=100_000,
)  # fmt: skip
_SEED: Final = IntField(
    "seed", "Seed", "Inference", help="Seed of the arrivals", name="seed", default=0, minimum=0, maximum=2**31
)
_SERVING_FIELDS: Final = (_TTFT, _TPOT, _RATE, _REQUESTS, _SEED)


def _configure(parser: argparse.ArgumentParser) -> None:
    add_scenario_arguments(parser)
    group = parser.add_argument_group("Limits and queue")
    for row in _SERVING_FIELDS:
        default = "none" if row.default is None else f"{row.default}"
        group.add_argument(row.flag, metavar=row.placeholder, help=f"{row.help}. Default: {default}.")
    trace = "Run a queue of the requests in a CSV file with columns arrival, input, output instead"
    group.add_argument("--trace", metavar="FILE", help=trace)


def _serve(arguments: argparse.Namespace) -> Outcome:
    options = {row.name: row.default for row in _SERVING_FIELDS} | given_values(arguments, _SERVING_FIELDS)
    _check_queue_flags(arguments, options["rate"])
    scenario = scenario_from(arguments)
    estimate = estimate_serving(resolve(scenario, "serve"))
    limits = options["max_ttft"], options["max_tpot"]
    document = estimate.to_dict()
    document["violations"] += to_json(latency_violations(estimate, *limits))
    document["feasible"] = not document["violations"]
    if limits != (None, None):
        document["operating_point"] = operating_point(scenario, *limits).to_dict()
    if arguments.trace is not None or options["rate"] is not None:
        document["queue"] = _queue(scenario, arguments.trace, options)
    return Outcome(document, lambda: serving_text(document))


def _check_queue_flags(arguments: argparse.Namespace, rate: float | None) -> None:
    """Refuse flags that would have no effect."""
    if arguments.trace is not None and rate is not None:
        raise InvalidInputError("rate", rate, "left out when --trace is given", "give only one of the two")
    for name in ("requests", "seed"):
        given = getattr(arguments, name)
        if given is not None and rate is None:
            remedy = f"add --rate, or leave out --{name}"
            raise InvalidInputError(name, given, "given only with --rate, whose arrivals it describes", remedy)


def _queue(scenario: Scenario, path: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    requests = None if path is None else parse_trace(read_user_file("trace", path, "CSV", MAX_CSV_BYTES))
    trace = simulate_scenario(
        scenario, options["rate"] or 1.0, options["requests"], seed=options["seed"], trace=requests
    )
    return {
        "requests": len(trace.arrival),
        "span": trace.span,
        "output_tokens_per_s": trace.output_tokens_per_s,
        "utilization": trace.utilization(),
        **trace.percentiles(),
    }


def serving_text(document: Mapping[str, Any]) -> str:
    """Serving estimate as text for the terminal."""
    prefill, decode = document["time"]["prefill"], document["time"]["decode"]
    point = document.get("operating_point")
    return sections(
        [
            ("", _scenario_text(document["scenario"])),
            ("", verdict_text(document)),
            ("", columns(_serving_headline(document))),
            ("Operating point", f"  {point['message']}" if point else ""),
            ("Time to first token, by part", parts_text(prefill, document["ttft"], duration)),
            ("One decode step, by part", parts_text(decode, sum(decode.values()), duration)),
            ("Memory of the fullest rank, by part", memory_text(document["memory"])),
            ("Queue", _queue_text(document["queue"]) if "queue" in document else ""),
            ("Assumptions", "\n".join(f"  - {line}" for line in document["assumptions"])),
        ]
    )


def _scenario_text(scenario: Mapping[str, Any]) -> str:
    numerics = f"{scenario['precision']} {scenario['sparsity']}"
    machine = f"{scenario['model']} on {scenario['count']} x {scenario['system']}, {numerics}"
    degrees = " ".join(f"{axis} {scenario[axis]}" for axis in AXES)
    tokens = f"{scenario['input_tokens']:,} tokens in (bucket {scenario['context_bucket']:,})"
    running = number_of_requests(scenario["concurrency"])
    served = f"{running} per replica (graph of {scenario['compiled_batch']:,})"
    return f"{machine}, profile {scenario['profile']}\n{degrees}, {served}, {tokens}, {scenario['output_tokens']:,} out"


def _serving_headline(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    cost = document["cost"]["usd_per_million_tokens"]
    rows = [
        ("time to first token", _ranged(document["ttft"], document["ttft_range"])),
        ("time per output token", _ranged(document["tpot"], document["tpot_range"])),
        ("  with prefill stalls", duration(document["tpot_with_stalls"])),
        ("output throughput", f"{count(document['output_tokens_per_s'])} tok/s"),
        ("  per chip", f"{count(document['output_tokens_per_s_per_chip'])} tok/s"),
        ("concurrency that fits", f"{document['max_concurrency']:,.0f} per replica"),
        ("KV cache per token", f"{capacity(document['kv_bytes_per_token'])}, held {document['kv_replication']:.3g} x"),
        ("HBM bandwidth in decode", percent(document["hbm_bandwidth_utilization"])),
    ]
    if document["tokens_per_step"] > 1:
        rows.append(("tokens per decode step", significant(document["tokens_per_step"])))
    text = (
        "not given: no public price for this option" if cost is None else f"{significant(cost)} USD per million tokens"
    )
    return [*rows, ("cost", text)]


def _ranged(value: float, ends: list[float]) -> str:
    return f"{duration(value)} ({duration(ends[0])} to {duration(ends[1])})"


def _queue_text(queue: Mapping[str, Any]) -> str:
    names = {"ttft": "time to first token", "tpot": "time per output token", "e2e": "whole request"}
    shown = ("mean", "p50", "p90", "p99")
    rows: list[tuple[str, ...]] = [("", *shown)]
    for key, name in names.items():
        rows.append((name, *("–" if queue[key][s] is None else duration(queue[key][s]) for s in shown)))
    busy = ", ".join(f"{name} {percent(share)}" for name, share in queue["utilization"].items())
    head = f"  {number_of_requests(queue['requests'])} in {duration(queue['span'])}: {busy}"
    return head + "\n" + columns(rows, right=range(1, 5), indent="  ")


SERVE: Final = Command("serve", "latency, throughput and concurrency of serving", _configure, _serve)
