"""The README keeps its word: its commands run, its Python runs, the paths it names exist."""

from __future__ import annotations

import json
import re
import shlex
import tomllib

import pytest

from tests.contracts.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SHELL_LINES = [line for kind, body in BLOCKS if kind == "bash" for line in body.splitlines()]
CLI_LINES = [line for line in SHELL_LINES if line.startswith("trn2model ")]
PYTHON_BLOCKS = [body for kind, body in BLOCKS if kind == "python"]
PATHS = re.findall(r"`((?:trn2model|tests|pages|\.ci|\.streamlit|dashboard)[\w./-]*)`", README)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_one_command_installs_and_starts_the_dashboard() -> None:
    assert SHELL_LINES[0] == "python -m pip install -e . && python -m streamlit run dashboard.py"


def test_one_command_installs_and_tests() -> None:
    install, _, run = SHELL_LINES[1].partition(" && ")
    assert re.fullmatch(r'python -m pip install -e "\.\[test\]"', install)
    assert run.startswith("python -m pytest")
    assert "test" in PROJECT["optional-dependencies"]


def test_ci_runs_the_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = re.search(r"^test_command='(.*)'$", script, re.MULTILINE)
    assert command
    assert command[1] == SHELL_LINES[1]
    assert 'bash -c "$test_command"' in script


def test_ci_is_executable() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_the_dashboard_is_part_of_the_normal_install() -> None:
    names = {re.split(r"[<>=!~ ]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert names == {"numpy", "pandas", "plotly", "streamlit"}


def test_there_are_examples() -> None:
    assert len(CLI_LINES) >= 4
    assert PYTHON_BLOCKS


@pytest.mark.parametrize("line", CLI_LINES)
def test_command_line_examples_run(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    from trn2model.cli import main

    arguments = shlex.split(line, comments=True)[1:]
    status = main(arguments)
    output = capsys.readouterr()
    assert not status, output.err
    assert output.out.strip()
    if "--json" in arguments:
        assert json.loads(output.out)


@pytest.mark.parametrize("block", PYTHON_BLOCKS)
def test_python_examples_run(block: str) -> None:
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("path", sorted(set(PATHS)))
def test_named_paths_exist(path: str) -> None:
    assert (ROOT / path).exists()
