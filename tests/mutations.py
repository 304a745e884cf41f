# ruff: noqa: E501
"""Faults planted in the model, each of which the tests must catch without the regression files of `tests/golden`.

``python -m tests.mutations`` plants each fault in a copy of the house, runs the tests that check formulas and estimates
against something else than themselves, and says which test caught it; it takes some minutes. The exit code is the
number of faults that survived.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: The order in which folders get their chance; the first failure ends the run.
SUITES: Final = ("tests/oracles", "tests/properties", "tests/unit", "tests/validation")


@dataclass(frozen=True)
class Mutation:
    """A fault: what stands in a file, and what is put there instead."""

    kind: str
    path: str
    old: str
    new: str


MUTATIONS: Final = (
    Mutation("factor 2", "formulas/matmul.py", "return 2.0 * rows * contraction * columns", "return rows * contraction * columns"),
    Mutation("factor 2", "formulas/attention.py", "(cached + 0.5 * growing)", "(cached + growing)"),
    Mutation("dropped term", "formulas/memory.py", "tokens * divided_bytes / tp", "tokens * divided_bytes"),
    Mutation("dropped term", "formulas/sparsity.py", "kept / group * (value_bytes + tag_bytes)", "kept / group * value_bytes"),
    Mutation("dropped term", "formulas/pipeline.py", "(before + wait) / interleave", "(before + wait)"),
    Mutation("sign", "formulas/moe.py", "1.0 - np.power(1.0 - experts_per_token / num_experts, tokens)", "1.0 + np.power(1.0 - experts_per_token / num_experts, tokens)"),
    Mutation("wrong axis", "network/routing.py", "strides = (1, fabric.shape[0], fabric.shape[0] * fabric.shape[1])", "strides = (fabric.shape[0], 1, fabric.shape[0] * fabric.shape[1])"),
    Mutation("sign", "network/routing.py", "position = (start[rows] + sign * hop) % size", "position = (start[rows] - sign * hop) % size"),
    Mutation("dropped term", "network/cost.py", "fixed += float(stage.count @ latency)", "fixed += float(latency.max())"),
    Mutation("wrong group", "network/cost.py", "groups = self.groups(axes, scope)", "groups = self.groups(axes)"),
    Mutation("dropped term", "model/training/gradients.py", "gradients / share.shards", "gradients"),
    Mutation("wrong axis", "model/stages.py", "rows[-1, num_kinds + 1] = 1.0", "rows[0, num_kinds + 1] = 1.0"),
)  # fmt: skip


def planted_text(mutation: Mutation) -> str:
    """Text of the file with the fault in it; the place must be there once."""
    text = (ROOT / "trn2model" / mutation.path).read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        message = f"{mutation.path}: {mutation.old!r} stands there {text.count(mutation.old)} times"
        raise ValueError(message)
    return text.replace(mutation.old, mutation.new)


def catcher(mutation: Mutation) -> str:
    """First test that fails with the fault planted; empty where none does."""
    with tempfile.TemporaryDirectory() as folder:
        house = Path(folder)
        for name in ("trn2model", "tests", "pages"):
            shutil.copytree(ROOT / name, house / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", house)
        (house / "trn2model" / mutation.path).write_text(planted_text(mutation), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *SUITES]
        environment = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if done.returncode else ""


def main() -> int:
    """Plant every fault in turn, and count the survivors."""
    survivors = 0
    for mutation in MUTATIONS:
        caught = catcher(mutation)
        survivors += not caught
        sys.stdout.write(f"{mutation.kind:13} {mutation.path:30} {caught or 'SURVIVED'}\n")
        sys.stdout.flush()
    return survivors


if __name__ == "__main__":
    sys.exit(main())
