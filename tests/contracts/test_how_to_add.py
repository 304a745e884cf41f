"""The README's recipes work: each is followed on a copy of the house."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.source import ROOT
from trn2model.ui.charts.chart import Chart, Words, compose
from trn2model.ui.pages.content import Content
from trn2model.ui.report import html
from trn2model.ui.tables import table


class House:
    """A copy of the package, its pages and its tests that may be built on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("trn2model", "pages", "tests", ".streamlit"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("dashboard.py", "pyproject.toml"):
            shutil.copy(ROOT / name, root)

    def run(self, *arguments: str) -> str:
        """Output of Python on the copy; the test fails with what it complains of."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def answer(self, *words: str) -> Any:
        """JSON of a command."""
        return json.loads(self.run("-m", "trn2model", *words, "--json"))

    def data(self, name: str) -> Path:
        return self.root / "trn2model" / "data" / name

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} no longer holds {old!r}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_chip_and_a_machine(house: House) -> None:
    hardware = house.data("hardware")
    shutil.copy(hardware / "trainium2.toml", hardware / "mychip.toml")
    system = (hardware / "trn2.3xlarge.toml").read_text(encoding="utf-8")
    (hardware / "my.3xlarge.toml").write_text(system.replace('chip = "trainium2"', 'chip = "mychip"'), encoding="utf-8")
    assert house.answer("specs", "mychip")["figures"]["num_cores"]["value"] == 8
    assert house.answer("train", "--model", "llama-3.2-1b", "--system", "my.3xlarge")["step_time"] > 0


def test_a_model(house: House) -> None:
    models = house.data("models")
    sizes = (models / "llama-3.1-8b.toml").read_text(encoding="utf-8").replace("times = 32", "times = 16")
    (models / "my-half.toml").write_text(sizes, encoding="utf-8")
    half, whole = (house.answer("models", name)["parameters"] for name in ("my-half", "llama-3.1-8b"))
    assert 0.5 * whole < half < whole


def test_a_measurement(house: House) -> None:
    rows = house.data("measurements/gemm.csv")
    before = house.answer("validate", "--kind", "gemm")["datasets"]
    lines = rows.read_text(encoding="utf-8").splitlines()
    names = lines[0].split(",")
    used = next(line for line in lines if ",fit," in line and '"' not in line)
    cells = dict(zip(names, used.split(","), strict=True)) | {
        "id": "mine-001",
        "use": "check",
        "reason": "own measurement",
    }
    rows.write_text("\n".join([*lines, ",".join(cells[name] for name in names)]) + "\n", encoding="utf-8")
    after = house.answer("validate", "--kind", "gemm")["datasets"]
    assert sum(d["used"] for d in after) == sum(d["used"] for d in before) + 1


def test_a_profile(house: House) -> None:
    text = (
        'title = "Mine"\nextends = "achievable"\n\n[constants.step_time]\n'
        'value = 1\nunit = "s"\nsource = "own-assumption"\nstatus = "assumed"\n'
    )
    (house.data("profiles") / "mine.toml").write_text(text, encoding="utf-8")
    words = ("train", "--model", "llama-3.1-8b", "--system", "trn2.48xlarge", "--profile")
    assert house.answer(*words, "mine")["step_time"] > house.answer(*words, "achievable")["step_time"] + 0.9


def test_an_algorithm_of_collectives(house: House) -> None:
    """A ring by another name: offered by the command line, and played against its closed form by the oracle."""
    name = 'RDH = "rdh"'
    house.replace("trn2model/network/algorithms.py", name, f'{name}\n    MINE = "mine"')
    ways = "trn2model/network/ways.py"
    house.replace(ways, '"rdh", "hierarchical")', '"rdh", "hierarchical", "mine")')
    for half in ("gather", "scatter"):
        row = f"(Algorithm.RDH, steps.cube_{half}),"
        house.replace(ways, row, f"{row}\n    (Algorithm.MINE, steps.ring_{half}),")
    row = "Algorithm.RDH: (moves.cube_gather, moves.cube_scatter),"
    mine = "Algorithm.MINE: (moves.ring_gather, moves.ring_scatter),"
    house.replace("trn2model/simulate/collectives.py", row, f"{row}\n    {mine}")
    words = "trn2model/ui/pages/collective.py"
    house.replace(words, '"ring": "ring",', '"ring": "ring",\n    "mine": "mine",')
    house.replace(words, 'Algorithm.RDH: "rdh",', 'Algorithm.RDH: "rdh",\n    Algorithm.MINE: "mine",')
    words_of_command = ("collective", "--op", "all_gather", "--ranks", "16", "--bytes", "1e6", "--algorithm")
    times = [house.answer(*words_of_command, algorithm)["time"] for algorithm in ("mine", "ring")]
    assert times[0] == times[1]
    house.run("-m", "pytest", "-q", "tests/oracles/test_collectives.py", "-k", "closed_form_equals_replay and block")


def test_a_chart() -> None:
    words = Words("Bytes by part", "of a plan", "Bars of two parts", "bytes-by-part")
    rows = table(("part", "bytes [GiB]"), [("weights", 4.0), ("gradients", 8.0)])
    bars = {"type": "bar", "x": list(rows.column("part")), "y": list(rows.column("bytes [GiB]"))}
    chart = compose(words, [bars], {"yaxis": {"title": {"text": "GiB"}}}, rows, mode="light", height=240)
    content = Content("Mine", "a configuration", None, (), ((chart,),))
    assert isinstance(chart, Chart)
    assert content.tables() == {"Bytes by part": rows}
    assert "Bytes by part" in html(content, "")


def test_a_page(house: House) -> None:
    (house.root / "trn2model/ui/pages/mine.py").write_text(
        '"""Mine."""\n\nfrom trn2model.ui.pages.content import Content, Metric\n\n\n'
        'def content(estimate, mode):\n    """Content of the page."""\n'
        '    return Content("Mine", "", None, (Metric("Step time", f"{estimate.step_time:.3g} s", ""),), ())\n',
        encoding="utf-8",
    )
    script = (house.root / "pages/chip.py").read_text(encoding="utf-8")
    script = script.replace("chip", "mine").replace("Chip", "Mine")
    (house.root / "pages/mine.py").write_text(script, encoding="utf-8")
    house.replace("trn2model/ui/app.py", '    ("pages/chip.py", "Chip"),', '    ("pages/mine.py", "Mine"),')
    house.run(
        "-c",
        "from streamlit.testing.v1 import AppTest\n"
        "app = AppTest.from_file('dashboard.py', default_timeout=60).run().switch_page('pages/mine.py').run()\n"
        "assert not app.exception, app.exception\n"
        "assert [m.label for m in app.metric] == ['Step time']\n",
    )
