"""The command line: answers in text and JSON, and one clear line for whatever cannot be answered."""

from __future__ import annotations

import io
import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trn2model.cli import main
from trn2model.cli.command import (
    Outcome,
    Parser,
    UsageError,
    add_scenario_arguments,
    columns,
    read_model,
    scenario_from,
    sections,
)
from trn2model.cli.facts import COLLECTIVE, MODELS, SPECS, collective_text
from trn2model.cli.program import COMMANDS, as_json, parser
from trn2model.cli.workloads import LINK, TRAIN, training_text
from trn2model.errors import NothingFeasibleError
from trn2model.specs import catalog
from trn2model.specs.fields import BoolField
from trn2model.specs.link import query_string
from trn2model.specs.provenance import MAX_JSON_BYTES
from trn2model.specs.resolve import resolve
from trn2model.specs.scenario import FIELDS, Scenario

LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
TRAIN_KEYS = {
    "scenario", "feasible", "violations", "step_time", "tokens_per_s", "tokens_per_s_per_chip", "mfu", "hfu",
    "bubble_fraction", "model_flop_per_step", "forward_flop", "time", "step_time_range", "memory",
    "hbm_bandwidth_utilization", "communication", "links", "cost", "assumptions",
}  # fmt: skip

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line: exit code, standard output, standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        output = capsys.readouterr()
        return status, output.out, output.err

    return call


@pytest.fixture
def document(run: Run) -> Callable[..., dict[str, Any]]:
    """Run a command with --json and return what it printed."""

    def call(*arguments: str) -> dict[str, Any]:
        status, out, err = run(*arguments, "--json")
        assert (status, err) == (0, "")
        content: dict[str, Any] = json.loads(out, parse_constant=_no_constant)
        return content

    return call


def _no_constant(name: str) -> None:
    pytest.fail(f"{name} is not JSON")


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Path of a config.json of Llama-3.2-1B."""
    path = tmp_path / "my-model.json"
    path.write_text(json.dumps(LLAMA_CONFIG))
    return str(path)


def test_there_is_one_flag_for_every_field() -> None:
    program = Parser("x")
    add_scenario_arguments(program)
    flags = {flag for action in program._actions for flag in action.option_strings}
    negative = {"--no-" + row.flag[2:] for row in FIELDS if isinstance(row, BoolField)}
    assert flags == {"-h", "--help", "--model-config", "--scenario"} | {row.flag for row in FIELDS} | negative


def test_every_flag_sets_its_field() -> None:
    words = [
        "--model", "mixtral-8x7b", "--system", "trn2.48xlarge", "--count", "4", "--lnc", "1", "--price-option", "spot",
        "--tp", "8", "--pp", "2", "--cp", "2", "--ep", "8", "--dp", "auto", "--no-sequence-parallel", "--zero", "3",
        "--fsdp-prefetch", "2", "--interleave", "2", "--pipeline-schedule", "1f1b", "--context-parallel-method",
        "all-gather", "--placement", "dp,tp,cp,ep,pp", "--precision", "fp8", "--weight-dtype", "bf16", "--kv-dtype",
        "fp8", "--sparsity", "4:16", "--transposable-mask", "--microbatch-size", "2", "--global-batch-size", "64",
        "--sequence-length", "8192", "--recompute", "full", "--optimizer", "adamw-bf16-sr", "--attention-kernel",
        "naive", "--lora-rank", "16", "--input-tokens", "10", "--output-tokens", "20", "--concurrency", "2",
        "--compiled-batch", "4", "--context-bucket", "16", "--prefill-chunk", "8", "--prefix-hit", "0.5",
        "--draft-model", "eagle", "--draft-tokens", "3", "--acceptance", "0.7", "--profile", "ideal", "--peak-basis",
        "launch", "--moe-imbalance", "1.5",
    ]  # fmt: skip
    expected = Scenario(
        model="mixtral-8x7b", system="trn2.48xlarge", count=4, lnc=1, price_option="spot", tp=8, pp=2, cp=2, ep=8,
        sequence_parallel=False, zero=3, fsdp_prefetch=2, interleave=2, context_parallel_method="all-gather",
        placement="dp,tp,cp,ep,pp", precision="fp8", weight_dtype="bf16", kv_dtype="fp8", sparsity="4:16",
        transposable_mask=True, microbatch_size=2, global_batch_size=64, sequence_length=8192, recompute="full",
        optimizer="adamw-bf16-sr", attention_kernel="naive", lora_rank=16, input_tokens=10, output_tokens=20,
        concurrency=2, compiled_batch=4, context_bucket=16, prefill_chunk=8, prefix_hit=0.5, draft_model="eagle",
        draft_tokens=3, acceptance=0.7, profile="ideal", peak_basis="launch", moe_imbalance=1.5,
    )  # fmt: skip
    assert scenario_from(parser().parse_args(["link", *words])) == expected
    assert scenario_from(parser().parse_args(["link"])) == Scenario()


def test_specs_of_a_system(document: Callable[..., dict[str, Any]]) -> None:
    report = document("specs", "trn2-ultraserver")
    figures = report["figures"]
    assert report["system"] == "trn2-ultraserver"
    assert (figures["num_chips"]["value"], figures["num_links"]["value"]) == (64, 192)
    assert figures["hbm_bytes"]["value"] == 6 * 2**40
    assert figures["sparse_flop_rate"]["value"] == 164e15
    assert [other["value"] for other in figures["sparse_flop_rate"]["alternatives"]] == [332e15]
    assert all(
        figure.keys() >= {"value", "unit", "source", "status", "note", "alternatives"} for figure in figures.values()
    )


def test_specs_without_a_name_lists_the_systems(document: Callable[..., dict[str, Any]], run: Run) -> None:
    assert [system["system"] for system in document("specs")["systems"]] == list(catalog.system_names())
    _, out, _ = run("specs")
    assert all(name in out for name in catalog.system_names())
    assert "46.4 TB/s" in out


def test_specs_text_names_value_source_and_conflict(run: Run) -> None:
    _, out, _ = run("specs", "trn2.48xlarge")
    line = next(line for line in out.splitlines() if line.startswith("sparse flop rate"))
    assert "41 PFLOP/s" in line
    assert "83.2 PFLOP/s (aws-trn2-launch)" in line


def test_models(document: Callable[..., dict[str, Any]], run: Run) -> None:
    report = document("models", "llama-3.1-70b")
    assert report["parameters"] == 70_553_706_496
    assert report["kv_bytes_per_token"] == 327_680
    assert (
        document("models", "llama-2-70b", "--context", "3584")["forward_flop_per_token"]
        - document("models", "llama-2-70b", "--context", "128")["forward_flop_per_token"]
        == 4 * 8192 * (3584 - 128) * 80
    )
    assert [model["name"] for model in document("models")["models"]] == list(catalog.model_names())
    assert "70,553,706,496" in run("models", "llama-3.1-70b")[1]
    assert "131 GiB" in run("models")[1]


def test_a_model_of_ones_own(document: Callable[..., dict[str, Any]], config: str, run: Run) -> None:
    report = document("models", "--model-config", config)
    assert report["name"] == "my-model"
    assert report["parameters"] == 1_235_814_400
    assert run("models", "--model-config", config)[1].startswith("my-model")
    assert document("train", "--model-config", config, "--tp", "8")["scenario"]["model"] == "my-model"


def test_a_config_is_named_after_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "Llama\n1B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    assert read_model(str(folder / "config.json")).name == "Llama?1B"


def test_train(document: Callable[..., dict[str, Any]]) -> None:
    report = document("train")
    assert report.keys() >= TRAIN_KEYS
    assert report["feasible"] is True
    assert report["violations"] == []
    assert report["scenario"] == resolve(Scenario()).to_dict()
    assert math.isclose(sum(report["time"].values()), report["step_time"], rel_tol=1e-9)
    assert math.isclose(sum(report["memory"]["parts"].values()), report["memory"]["used_bytes"], rel_tol=1e-9)


def test_an_infeasible_plan_is_an_answer(document: Callable[..., dict[str, Any]], run: Run) -> None:
    arguments = ("train", "--model", "gpt3-175b", "--system", "trn2.3xlarge")
    report = document(*arguments)
    assert report["feasible"] is False
    assert report["violations"][0]["demand"] > report["violations"][0]["limit"]
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    assert "does not fit: HBM" in out


def test_train_text_shows_the_answer_in_units(run: Run, document: Callable[..., dict[str, Any]]) -> None:
    report = document("train", "--count", "2", "--tp", "16", "--pp", "4")
    text = run("train", "--count", "2", "--tp", "16", "--pp", "4")[1]
    assert text.rstrip("\n") == training_text(report)
    assert "llama-3.1-70b on 2 x trn2-ultraserver" in text
    assert "tp 16 cp 1 ep 1 dp 8 pp 4" in text
    for part in (*report["time"], *report["memory"]["parts"]):
        if report["time"].get(part, report["memory"]["parts"].get(part)):
            assert f"  {part.replace('_', ' ')} " in text
    assert "GiB" in text
    assert max(len(line) for line in text.split("Assumptions")[0].splitlines()) <= 120


def test_cost_is_given_where_a_price_is(run: Run) -> None:
    assert "USD per million tokens" in run("train", "--system", "trn2.48xlarge", "--count", "4")[1]
    assert "no public price" in run("train")[1]


def test_scenario_file_and_flags(tmp_path: Path, document: Callable[..., dict[str, Any]]) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps({"tp": 16, "precision": "fp8", "sequence_parallel": False}))
    assert document("link", "--scenario", str(path))["parameters"] == {"tp": "16", "sp": "false", "p": "fp8"}
    assert document("link", "--scenario", str(path), "--tp", "8", "--sequence-parallel")["parameters"] == {
        "tp": "8",
        "p": "fp8",
    }
    answer = document("train", "--scenario", str(path))
    path.write_text(json.dumps(answer))
    assert document("train", "--scenario", str(path)) == answer


def test_collective(run: Run, document: Callable[..., dict[str, Any]]) -> None:
    arguments = (
        "collective",
        "--op",
        "all_reduce",
        "--bytes",
        "67108864",
        "--system",
        "trn2.48xlarge",
        "--ranks",
        "64",
    )
    report = document(*arguments)
    assert report.keys() == {"time", "algorithm", "algbw", "busbw", "by_algorithm", "max_link_utilization"}
    assert report["time"] == min(report["by_algorithm"].values()) == report["by_algorithm"][report["algorithm"]]
    assert math.isclose(report["algbw"], 67108864 / report["time"])
    assert math.isclose(report["busbw"], report["algbw"] * 2 * 63 / 64)
    assert 0 < report["max_link_utilization"] <= 1
    text = run(*arguments)[1]
    assert text.startswith("all_reduce of 67.1 MB over 64 ranks of 1 x trn2.48xlarge, profile achievable")
    assert collective_text("title", report).splitlines()[1:] == text.rstrip().splitlines()[1:]
    slowest = max(report["by_algorithm"], key=report["by_algorithm"].__getitem__)
    assert document(*arguments, "--algorithm", slowest)["time"] == report["by_algorithm"][slowest]


def test_collective_takes_every_rank_and_the_profile_asked_for(document: Callable[..., dict[str, Any]]) -> None:
    arguments = ("collective", "--op", "all_gather", "--bytes", "1e6", "--system", "trn2.48xlarge")
    assert document(*arguments) == document(*arguments, "--ranks", "64")
    assert document(*arguments, "--lnc", "1") == document(*arguments, "--lnc", "1", "--ranks", "128")
    assert document(*arguments, "--profile", "ideal")["time"] < document(*arguments)["time"]
    assert document(*arguments, "--ranks", "1")["time"] == 0


def test_link(run: Run, document: Callable[..., dict[str, Any]]) -> None:
    assert run("link") == (0, "/\n", "")
    arguments = ("link", "--tp", "16", "--sparsity", "4:16", "--placement", "dp,tp,cp,ep,pp")
    link = "/?" + query_string(Scenario(tp=16, sparsity="4:16", placement="dp,tp,cp,ep,pp"))
    assert run(*arguments) == (0, link + "\n", "")
    assert document(*arguments) == {
        "link": link,
        "query_string": link[2:],
        "parameters": {"tp": "16", "pl": "dp,tp,cp,ep,pp", "sx": "4:16"},
    }


def test_help_shows_units_defaults_and_choices(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["train", "--help"])
    assert left.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "an integer from 1 to 1,024" in text
    assert "one of bf16, fp16, fp8, fp32. Default: bf16." in text
    assert all(" ".join(row.help.split()[:6]) in text for row in FIELDS)


# what is given, what the one line must name
BAD: list[tuple[list[str], str]] = [
    ([], "COMMAND"),
    (["fly"], "fly"),
    (["train", "--frobnicate", "1"], "--frobnicate"),
    (["train", "--tp"], "--tp"),
    (["train", "--t", "8"], "--t"),
    (["train", "stray"], "stray"),
    (["train", "x" * 100_000], "xxx"),
    (["train", "--model-config", "x" * 100_000], "File name too long"),
    (["train", "--model", "gpt-5"], "model = 'gpt-5'"),
    (["train", "--model", ""], "model = ''"),
    (["train", "--system", "trn9"], "system = 'trn9'"),
    (["train", "--tp", "0"], "tp = 0"),
    (["train", "--tp", "3"], "64 attention heads"),
    (["train", "--model", "llama-2-13b", "--tp", "24"], "40 attention heads"),
    (["train", "--tp", "-8"], "tp = -8"),
    (["train", "--tp", "nan"], "tp = 'nan'"),
    (["train", "--tp", "8.5"], "tp = '8.5'"),
    (["train", "--tp", "9" * 400], "tp = '999"),
    (["train", "--tp", "1\n2"], r"tp = '1\n2'"),
    (["train", "--tp", "8,16"], "tp = '8,16'"),
    (["train", "--dp", "512", "--global-batch-size", "256"], "dp = 512"),
    (["train", "--dp", "512"], "256 ranks"),
    (["train", "--pp", "96", "--model", "gpt3-175b", "--interleave", "2"], "96 layers"),
    (["train", "--pp", "96", "--model", "megatron-22b"], "48 layers"),
    (["train", "--ep", "4"], "dense"),
    (["train", "--cp", "3", "--tp", "1"], "sequence_length = 4096"),
    (["train", "--microbatch-size", "0"], "microbatch_size = 0"),
    (["train", "--microbatch-size", "5"], "global_batch_size = 1024"),
    (["train", "--sequence-length", "0"], "sequence_length = 0"),
    (["train", "--input-tokens", "-5"], "input_tokens = -5"),
    (["train", "--lnc", "3"], "lnc = 3"),
    (["train", "--zero", "4"], "zero = 4"),
    (["train", "--precision", "fp7"], "precision = 'fp7'"),
    (["train", "--precision", "fp8", "--system", "p4de.24xlarge"], "fp8"),
    (["train", "--sparsity", "4:16", "--system", "trn1.32xlarge"], "sparsity = '4:16'"),
    (["train", "--sparsity", "3:7"], "sparsity = '3:7'"),
    (["train", "--sparsity", "4:16", "--precision", "fp32"], "fp32"),
    (["train", "--placement", "tp,dp"], "placement = 'tp,dp'"),
    (["train", "--profile", "wishful"], "profile = 'wishful'"),
    (["train", "--prefix-hit", "1.5"], "prefix_hit = 1.5"),
    (["train", "--prefix-hit", "inf"], "prefix_hit = 'inf'"),
    (["train", "--moe-imbalance", "0.5"], "moe_imbalance = 0.5"),
    (["train", "--sequence-parallel", "yes"], "yes"),
    (["train", "--interleave", "2", "--pipeline-schedule", "gpipe", "--pp", "2"], "gpipe"),
    (["link", "--tp", "x"], "tp = 'x'"),
    (["collective"], "--op"),
    (["collective", "--op", "broadcast", "--bytes", "1"], "op = 'broadcast'"),
    (["collective", "--op", "all_reduce"], "--bytes"),
    (["collective", "--op", "all_reduce", "--bytes", "0"], "bytes = 0"),
    (["collective", "--op", "all_reduce", "--bytes", "nan"], "bytes = 'nan'"),
    (["collective", "--op", "all_reduce", "--bytes", "1", "--ranks", "0"], "ranks = 0"),
    (["collective", "--op", "all_reduce", "--bytes", "1", "--ranks", "9999"], "ranks = 9999"),
    (["collective", "--op", "all_reduce", "--bytes", "1", "--algorithm", "magic"], "algorithm = 'magic'"),
    (["collective", "--op", "all_reduce", "--bytes", "1", "--system", "trn9"], "system = 'trn9'"),
    (["specs", "trn9"], "system = 'trn9'"),
    (["models", "gpt-5"], "model = 'gpt-5'"),
    (["models", "llama-3.1-8b", "--context", "-1"], "context = -1"),
    (["models", "--context", "many"], "context = 'many'"),
    (["models", "llama-3.1-8b", "--model-config", "x.json"], "not both"),
    (["train", "--model-config", "missing.json"], "No such file"),
    (["train", "--model-config", "."], "Is a directory"),
    (["train", "--model-config", "\0"], "null"),
    (["train", "--scenario", "missing.json"], "No such file"),
    (["train", "--model", "llama-3.1-8b", "--model-config", "x.json"], "--model-config"),
    (["train", "--model-config", ""], "model_config = '' is invalid: allowed is the path of a file"),
    (["models", "--model-config", ""], "model_config = '' is invalid"),
    (["train", "--scenario", ""], "scenario = '' is invalid"),
    (["serve", "--trace", ""], "trace = '' is invalid"),
    (["validate", "--csv", "", "--kind", "train"], "csv = '' is invalid"),
    (["validate", "--csv", "missing.csv", "--kind", "train"], "No such file"),
    (["train", "--model-config", os.devnull], "not a regular file"),
    (["train", "--scenario", "/dev/zero"], "not a regular file"),
    (["serve", "--trace", "/dev/zero"], "not a regular file"),
    (["validate", "--csv", "/dev/zero", "--kind", "serve"], "not a regular file"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=lambda value: ascii(value)[:60])
def test_bad_input_is_one_line_and_exit_2(arguments: list[str], said: str, run: Run) -> None:
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("trn2model: ")
    assert err.count("\n") == 1
    assert said in err
    assert "Traceback" not in err
    assert len(err) < 1600


FILES: list[tuple[str, bytes, str]] = [
    ("--model-config", b"", "JSON"),
    ("--model-config", b"{", "JSON"),
    ("--model-config", b"hidden_size: 4096", "JSON"),
    ("--model-config", b"[]", "one JSON object"),
    ("--model-config", b"{}", "model_type"),
    ("--model-config", b'{"model_type": "llama"}', "to config.json"),
    ("--model-config", b'{"model_type": "t5"}', "t5"),
    ("--model-config", json.dumps(LLAMA_CONFIG | {"hidden_size": -1}).encode(), "hidden_size"),
    ("--model-config", b"\xff\xfe{}", "UTF-8"),
    ("--model-config", b" " * (MAX_JSON_BYTES + 1), "1,048,576 bytes"),
    ("--model-config", b"[" * 100_000, "JSON"),
    ("--scenario", b"{", "JSON"),
    ("--scenario", b"[1]", "a JSON object"),
    ("--scenario", b'{"tensor_parallel": 8}', "tensor_parallel"),
    ("--scenario", b'{"tp": 0}', "tp = 0"),
    ("--scenario", b'{"tp": NaN}', "tp = nan"),
    ("--scenario", b'{"prefix_hit": Infinity}', "prefix_hit = inf"),
    ("--scenario", b'{"tp": "8"}', "tp = '8'"),
    ("--scenario", b'{"model": {"hidden_size": 1}}', "model = "),
    ("--scenario", b"[" * 100_000, "JSON"),
    ("--scenario", b'{"tp": ' + b"9" * 5000 + b"}", "scenario = "),
    ("--scenario", b'{"tp": [8, 16]}', "single value"),
]


@pytest.mark.parametrize(("flag", "content", "said"), FILES, ids=lambda value: ascii(value)[:40])
def test_bad_files_are_one_line_and_exit_2(flag: str, content: bytes, said: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "input.json"
    path.write_bytes(content)
    status, out, err = run("train", flag, str(path))
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_a_model_of_ones_own_has_no_link(config: str, run: Run) -> None:
    status, _, err = run("link", "--model-config", config)
    assert status == 2
    assert "no link" in err


def test_nothing_feasible_is_exit_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> None:
        message = "no plan of 10 fits"
        raise NothingFeasibleError(message)

    monkeypatch.setattr("trn2model.cli.program._answer", fail)
    assert main([]) == 3
    assert capsys.readouterr().err == "trn2model: no plan of 10 fits\n"


def test_interrupting_leaves_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trn2model.cli.program._answer", interrupt)
    assert main([]) == 130
    assert capsys.readouterr().err == ""


def test_the_parser_raises_instead_of_leaving() -> None:
    with pytest.raises(UsageError, match="see x --help"):
        Parser("x").error("wrong")


def test_commands_have_their_own_names() -> None:
    assert [command.name for command in COMMANDS][:3] == ["specs", "models", "train"]
    assert {SPECS, MODELS, TRAIN, COLLECTIVE, LINK} <= set(COMMANDS)
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


def test_json_has_null_for_what_is_not_finite() -> None:
    outcome = Outcome({"a": math.nan, "b": [math.inf, 1.5], "c": "µ"}, str)
    assert json.loads(as_json(outcome)) == {"a": None, "b": [None, 1.5], "c": "µ"}


def test_columns_fill_short_rows() -> None:
    assert columns([("a", "1"), ("bb",)], right=[1], indent="  ") == "  a   1\n  bb"
    assert sections([("", "x"), ("T", "")]) == "x"


def _process(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_module() -> None:
    done = _process(sys.executable, "-m", "trn2model", "link", "--tp", "8")
    assert (done.returncode, done.stdout, done.stderr) == (0, "/?tp=8\n", "")
    bad = _process(sys.executable, "-m", "trn2model", "train", "--tp", "3")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error() -> None:
    code = (
        "import os, sys; from trn2model.cli import main; r, w = os.pipe(); os.close(r); os.dup2(w, 1);"
        "sys.exit(main(['models', '--json']))"
    )
    done = _process(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def _shell(words: str) -> subprocess.CompletedProcess[str]:
    return _process("sh", "-c", f"{shlex.quote(sys.executable)} -m trn2model {words}")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("train > /dev/full", 1, "No space left"),
        ("train --json > /dev/full", 1, "No space left"),
        ("train --help > /dev/full", 1, "No space left"),
        ("train >&-", 1, "it is closed"),
        ("train --help >&-", 1, "it is closed"),
        ("train --tp 0 >&-", 2, "tp = 0"),
        ("train >&- 2>&-", 1, ""),
        ("train --tp 0 2>&-", 2, ""),
        ("train --tp 0 2> /dev/full", 2, ""),
        ("link 2>&-", 0, ""),
    ],
)
def test_streams_that_take_nothing_are_told_by_the_exit_code(words: str, status: int, said: str) -> None:
    done = _shell(words)
    assert done.returncode == status
    assert said in done.stderr
    assert done.stderr.count("\n") == bool(said)
    assert "Traceback" not in done.stderr


def test_help_may_go_to_another_stream() -> None:
    stream = io.StringIO()
    Parser("x").print_help(stream)
    assert "--help" in stream.getvalue()


def test_output_survives_a_narrow_encoding() -> None:
    code = (
        "import sys; sys.stdout.reconfigure(encoding='ascii');from trn2model.cli import main; sys.exit(main(['train']))"
    )
    done = _process(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_loads_no_dashboard_library() -> None:
    code = "import sys, trn2model.cli; print({'streamlit', 'pandas', 'plotly'} & set(sys.modules))"
    assert _process(sys.executable, "-c", code).stdout == "set()\n"
