"""Numbers of the public face, kept to show that a change of the house changes none of them.

``python -m tests.golden.numbers --write "why"`` runs 500 random estimates (training, serving, collectives) and the
validation through the command line, and keeps what it prints; ``python -m tests.golden.numbers`` runs the same
commands again and lists every number that moved by more than 1e-12. A deliberate change of a formula is kept with its
reason.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from trn2model.cli import main

KEPT: Final = Path(__file__).with_name("numbers.json.gz")
TOLERANCE: Final = 1e-12
ESTIMATES: Final = 500
SEED: Final = 20261207
COMMANDS: Final = ("train", "serve", "collective")
ANSWERED: Final = 0

_SHARED: Final[dict[str, tuple[str, ...]]] = {
    "model": (
        "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3",
        "gpt-oss-120b", "gpt3-175b", "qwen3-4b", "megatron-22b",
    ),
    "system": (
        "trn2-ultraserver", "trn2.48xlarge", "trn1.32xlarge", "trn2.3xlarge", "p5.48xlarge", "p5en.48xlarge",
        "p4de.24xlarge", "trn3-ultraserver-gen1", "inf2.48xlarge",
    ),
    "count": ("1", "1", "2", "4"),
    "lnc": ("2", "2", "1"),
    "tp": ("4", "8", "16", "32", "64", "auto"),
    "pp": ("1", "1", "2", "4"),
    "cp": ("1", "1", "1", "2"),
    "ep": ("1", "1", "2", "4"),
    "precision": ("bf16", "bf16", "fp8"),
    "sparsity": ("dense", "dense", "dense", "4:16", "2:4"),
    "profile": ("auto", "auto", "ideal", "achievable"),
    "peak-basis": ("neuron-docs", "launch"),
    "placement": ("tp,cp,ep,dp,pp", "tp,cp,ep,dp,pp", "tp,pp,cp,ep,dp", "dp,tp,cp,ep,pp"),
}  # fmt: skip
_TRAIN: Final[dict[str, tuple[str, ...]]] = {
    "zero": ("0", "1", "2", "3"),
    "zero-group": ("all", "all", "domain", "instance"),
    "interleave": ("1", "1", "2"),
    "recompute": ("none", "selective", "full"),
    "sequence-length": ("4096", "8192", "2048"),
    "global-batch-size": ("256", "1024"),
    "optimizer": ("adamw-fp32", "adamw-bf16-sr"),
    "pipeline-schedule": ("1f1b", "1f1b", "gpipe", "zb-h1"),
    "context-parallel-method": ("ring", "all-gather"),
    "moe-imbalance": ("1", "1.25"),
}
_SERVE: Final[dict[str, tuple[str, ...]]] = {
    "input-tokens": ("512", "2048", "10000"),
    "output-tokens": ("1", "128", "1024"),
    "concurrency": ("1", "8", "64"),
    "compiled-batch": ("auto", "64"),
    "prefill-chunk": ("0", "0", "1024"),
    "prefix-hit": ("0", "0", "0.5"),
    "kv-dtype": ("auto", "fp8"),
    "prefill-replicas": ("0", "0", "1"),
}
_COLLECTIVE: Final[dict[str, tuple[str, ...]]] = {
    "op": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"),
    "ranks": ("2", "4", "6", "16", "32", "64", "256", "auto"),
    "bytes": ("4096", "1048576", "67108864", "2147483648"),
    **{name: _SHARED[name] for name in ("system", "count", "lnc", "profile")},
}


def draw(command: str, rng: np.random.Generator) -> list[str]:
    """Words of a random command line."""
    fields = {"train": _SHARED | _TRAIN, "serve": _SHARED | _SERVE, "collective": _COLLECTIVE}[command]
    chosen = {name: str(rng.choice(values)) for name, values in fields.items()}
    return [command, "--json", *(word for name, value in chosen.items() for word in ("--" + name, value))]


def numbers(words: list[str]) -> dict[str, Any] | None:
    """Numbers of an answer, one per place of the document, entries of lists added with weights; None for an error."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main(words)
    if code != ANSWERED:
        return None
    sums: dict[str, float] = defaultdict(float)
    algorithms = []
    for place, value, weight in _leaves(json.loads(out.getvalue()), "", 1.0):
        if isinstance(value, (bool, int, float)):
            sums[place] += weight * value
        elif place.endswith("algorithm"):
            algorithms.append(str(value))
    return {**sums, "algorithms": ",".join(algorithms)}


def _leaves(value: object, place: str, weight: float) -> Iterator[tuple[str, object, float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else key, weight)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, place + "[]", weight * (1.0 + index / 64))
    else:
        yield place, value, weight


def moved(before: dict[str, Any], after: dict[str, Any] | None) -> list[str]:
    """Places whose number changed, appeared or vanished."""
    if after is None:
        return ["the whole answer"]
    return [name for name in sorted(before | after) if not _equal(before.get(name), after.get(name))]


def _equal(before: object, after: object) -> bool:
    if isinstance(before, float) and isinstance(after, float):
        return abs(before - after) <= TOLERANCE * max(abs(before), abs(after))
    return before == after


def kept() -> dict[str, Any]:
    """What was kept: date, reason, and the numbers of each command."""
    document: dict[str, Any] = json.loads(gzip.decompress(KEPT.read_bytes()))
    return document


def write(reason: str) -> None:
    """Keep the numbers of today's code."""
    rng = np.random.default_rng(SEED)
    cases: list[dict[str, Any]] = []
    while len(cases) < ESTIMATES:
        words = draw(COMMANDS[len(cases) % len(COMMANDS)], rng)
        if found := numbers(words):
            cases.append({"words": words, "numbers": found})
    validate = ["validate", "--json"]
    cases.append({"words": validate, "numbers": numbers(validate)})
    document = {"date": datetime.now(UTC).date().isoformat(), "reason": reason, "cases": cases}
    KEPT.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))


def differences() -> list[str]:
    """Commands whose numbers are no longer those kept, with the places that moved."""
    found = []
    for case in kept()["cases"]:
        places = moved(case["numbers"], numbers(case["words"]))
        found += [f"{' '.join(case['words'])}: {', '.join(places)}"] if places else []
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2])
    else:
        sys.stdout.write("\n".join([*differences(), "compared"]) + "\n")
