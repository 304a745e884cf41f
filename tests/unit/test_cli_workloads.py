"""The serve command: the contract's JSON, limits, the queue, and one line for what cannot be answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trn2model.cli import main
from trn2model.specs.provenance import MAX_CSV_BYTES

CONTRACT = {
    "scenario", "feasible", "violations", "ttft", "tpot", "output_tokens_per_s", "output_tokens_per_s_per_chip",
    "max_concurrency", "kv_bytes_per_token", "kv_replication", "time", "ttft_range", "tpot_range", "memory", "cost",
}  # fmt: skip


@pytest.fixture
def serve(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> dict[str, Any]:
        assert main(["serve", *words, "--json"]) == 0
        content: dict[str, Any] = json.loads(capsys.readouterr().out)
        return content

    return call


def test_the_document_of_the_contract(serve: Any) -> None:
    document = serve()
    assert document.keys() >= CONTRACT
    assert isinstance(document["max_concurrency"], int)
    assert document["time"].keys() == {"prefill", "decode"}
    assert sum(document["time"]["prefill"].values()) == pytest.approx(document["ttft"])
    assert document["feasible"] is True
    assert not {"operating_point", "queue"} & document.keys()


def test_limits_make_violations_and_an_operating_point(serve: Any) -> None:
    document = serve("--profile", "achievable", "--concurrency", "64", "--max-tpot", "0.02", "--max-ttft", "0.5")
    assert document["feasible"] is False
    assert [v["resource"] for v in document["violations"]] == ["time per output token"]
    point = document["operating_point"]
    assert point["limited_by"] == "tpot"
    assert 0 < point["concurrency"] < 64
    assert point["tpot"] <= 0.02


def test_memory_is_another_violation(serve: Any) -> None:
    document = serve("--concurrency", "4096")
    assert document["feasible"] is False
    assert [v["unit"] for v in document["violations"]] == ["B"]


def test_the_queue_is_reproducible(serve: Any, tmp_path: Path) -> None:
    first, second = (serve("--rate", "3", "--requests", "200", "--seed", "4")["queue"] for _ in range(2))
    assert first == second
    assert first["requests"] == 200
    assert first["ttft"]["p50"] <= first["ttft"]["p99"]
    assert sum(first["utilization"].values()) == pytest.approx(1.0)
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,input,output\n0,100,1\n1,2000,1\n")
    assert serve("--trace", str(trace))["queue"]["tpot"]["p50"] is None


@pytest.mark.parametrize(
    "words",
    [
        ("--max-ttft", "0"),
        ("--max-tpot", "nan"),
        ("--rate", "-1"),
        ("--requests", "0"),
        ("--requests", "5"),
        ("--requests", "5", "--rate", "none"),
        ("--requests", "5", "--trace", "nowhere.csv"),
        ("--seed", "x"),
        ("--seed", "4"),
        ("--rate", "2", "--trace", "nowhere.csv"),
        ("--trace", "nowhere.csv"),
        ("--concurrency", "8", "--compiled-batch", "4"),
        ("--prefill-replicas", "8"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_answered_is_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert words[0].removeprefix("--").replace("-", "_") in output.err or "compiled_batch" in output.err


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\x00", b"0" * (MAX_CSV_BYTES + 1)], ids=len)
def test_a_trace_that_is_none_is_refused(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    assert main(["serve", "--trace", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_text_says_it_all(capsys: pytest.CaptureFixture[str]) -> None:
    draft = ["--draft-model", "eagle", "--draft-tokens", "3", "--acceptance", "0.7"]
    assert main(["serve", "--rate", "2", "--requests", "50", "--max-tpot", "0.02", *draft]) == 0
    text = capsys.readouterr().out
    for words in (
        "fits: ",
        "time to first token",
        "Operating point",
        "draft",
        "kv_cache",
        "Queue",
        "p99",
        "Assumptions",
    ):
        assert words in text
