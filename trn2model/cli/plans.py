"""Commands on a scenario: ``train`` and ``link``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from trn2model.cli.arguments import add_scenario_arguments, scenario_from
from trn2model.cli.command import Command, Outcome
from trn2model.cli.text import columns, quantity_text, sections, share_text
from trn2model.estimate import estimate
from trn2model.ui.format import bandwidth, capacity, count, duration, percent, significant, traffic
from trn2model.ui.url_codec import encode, query_string
from trn2model.units import from_si

_AXES: Final = ("tp", "cp", "ep", "dp", "pp")


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
    degrees = " ".join(f"{axis} {scenario[axis]}" for axis in _AXES)
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
