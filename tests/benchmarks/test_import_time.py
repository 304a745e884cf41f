"""How long Python takes to start with the package, beside bare Python with NumPy."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

STATEMENTS = {"numpy": "import numpy", "trn2model": "import trn2model", "estimate": "from trn2model import estimate"}


@pytest.mark.parametrize("name", STATEMENTS)
def test_start_time(benchmark: BenchmarkFixture, name: str) -> None:
    command = [sys.executable, "-c", STATEMENTS[name]]
    benchmark.pedantic(subprocess.run, args=(command,), kwargs={"check": True}, rounds=7, warmup_rounds=1)
