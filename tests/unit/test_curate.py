from __future__ import annotations

import pytest

from trn2model.errors import DataError, InvalidInputError
from trn2model.validation.curate import curate, published, to_csv
from trn2model.validation.measurements import column_names, read_measurements

TRAINING = {
    "model": "Llama-3.1-8B",
    "seq_len": "4096",
    "instance": "trn2.48xlarge",
    "tp": "8",
    "pp": "1",
    "zero": "1",
    "microbatch": "1",
    "global_batch": "64",
    "precision": "bf16",
    "recompute": "selective",
    "throughput": "2",
    "throughput_unit": "s/step",
    "chips": "16",
    "trust": "A-vendor",
    "notes": "",
    "source": "somewhere",
}
INFERENCE = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "instance": "trn2.48xlarge (subset)",
    "chips": "2",
    "tp": "8",
    "lnc": "2",
    "batch": "1",
    "input_len": "1000",
    "output_len": "200",
    "weight_dtype": "bf16",
    "speculation": "none",
    "ttft_ms_p50": "100",
    "tpot_ms_p50": "10",
    "output_tokens_per_s": "90",
    "trust": "B-third-party",
    "notes": "",
    "source": "somewhere",
}
COLLECTIVE = {
    "op": "all_reduce",
    "ranks": "64",
    "instance": "trn2.48xlarge",
    "lnc": "2",
    "bytes": "1048576",
    "time_us": "50",
    "layer": "nccom-test",
    "trust": "B",
    "notes": "",
    "source": "somewhere",
}
OPERATOR = {
    "instance": "trn2.3xlarge",
    "unit_measured": "1 logical NeuronCore (LNC=2) = 1/4 chip",
    "op": "gemm",
    "dtype": "bf16",
    "shape": "M1024 K2048 N4096",
    "latency_us": "200",
    "provider": "torch",
    "trust": "B",
    "notes": "",
    "source": "somewhere",
}


def one(kind, raw, **changes):
    return curate(kind, "t", [{**raw, **changes}])[0]


def by_metric(**changes):
    return {row["metric"]: row for row in curate("serve", "t", [{**INFERENCE, **changes}])}


@pytest.mark.parametrize(
    ("throughput", "unit", "step_time"),
    [
        ("2", "s/step", 2.0),
        ("2", "s/iteration", 2.0),
        ("2500", "ms/step", 2.5),
        ("32", "seq/s (whole job)", 2.0),
        ("131,072", "tokens/s (whole job)", 2.0),
        ("131072", "tokens/s", 2.0),
        ("8192", "tokens/s/GPU", 2.0),
    ],
)
def test_every_unit_of_throughput_becomes_a_step_time(throughput, unit, step_time):
    row = one("train", TRAINING, throughput=throughput, throughput_unit=unit)
    assert row["measured"] == pytest.approx(step_time)
    assert row["tokens_per_s"] == pytest.approx(64 * 4096 / step_time)
    assert row["use"] == "fit"


def test_hardware_flop_rate_goes_by_the_papers_formula():
    changes = {"model": "GPT-1.7B", "layers": "24", "hidden": "2304", "vocab": "51200", "seq_len": "2048"}
    unit = "achieved TFLOP/s per GPU (counts the recompute forward pass: HFU-style)"
    changes |= {"instance": "DGX A100 80GB", "chips": "32", "global_batch": "512", "throughput": "137"}
    row = one("train", TRAINING, throughput_unit=unit, **changes)
    flop = 96 * 512 * 2048 * 24 * 2304**2 * (1 + 2048 / (6 * 2304) + 51200 / (16 * 24 * 2304))
    assert row["measured"] == pytest.approx(flop / (137e12 * 32))


@pytest.mark.parametrize(
    ("changes", "use", "words"),
    [
        ({"model": "BERT-Large Ph1"}, "excluded", "encoder"),
        ({"model": "New-1B"}, "excluded", "not in the catalog"),
        ({"instance": "DGX-B200"}, "excluded", "machine not in the catalog"),
        ({"throughput_unit": "MFU %"}, "excluded", "utilization only"),
        ({"throughput_unit": "min time-to-train"}, "excluded", "time to train"),
        ({"throughput": "", "throughput_unit": ""}, "excluded", "no throughput"),
        ({"seq_len": ""}, "excluded", "sequence length"),
        ({"tp": ""}, "excluded", "plan"),
        ({"recompute": ""}, "excluded", "recompute"),
        ({"trust": "C-incomplete"}, "bound", "trust class C"),
        ({"trust": ""}, "bound", "trust class C"),
        ({"notes": "DERIVED = 1.2 x"}, "check", "ratio"),
    ],
)
def test_a_training_row_that_cannot_be_fitted_on_says_why(changes, use, words):
    row = one("train", TRAINING, **changes)
    assert row["use"] == use
    assert words in row["reason"]


def test_layout_follows_from_the_chips():
    row = one("train", TRAINING, chips="1024")
    assert (row["count"], row["lnc"], row["dp"], row["cp"], row["ep"]) == (64, 2, 512, 1, 1)
    row = one("train", TRAINING, instance="trn1.32xlarge/trn1n.32xlarge", chips="256", pp="4")
    assert (row["system"], row["count"], row["lnc"], row["dp"]) == ("trn1.32xlarge", 16, None, 16)
    row = one("train", TRAINING, instance="DGX-H100", model="Qwen3-235B-A22B", chips="256", tp="2", pp="8", ep="32")
    assert (row["system"], row["dp"], row["ep"]) == ("p5.48xlarge", 1, 16)  # experts over tp x ep = 32 ranks


def test_assumptions_are_listed():
    row = one("train", TRAINING, sw_version="Megatron-Bridge 26.02", recompute="", zero="", notes="VP 5")
    assert row["stack"] == "megatron-bridge"
    assert row["interleave"] == 5
    assert (row["recompute"], row["zero"]) == ("none", 1)
    assert {"recompute", "zero", "sequence_parallel"} <= set(row["assumed"].split())
    assert "cp" not in row["assumed"].split()


def test_of_a_page_that_restates_itself_the_newest_release_stays():
    source = "aws-neuron-sdk@x:general/benchmarks/trn1/training_data_decoder.csv"
    rows = [
        {**TRAINING, "source": source, "instance": "trn1.32xlarge", "sw_version": f"Neuron {version}", "date": date}
        | {"throughput": throughput, "pp": pp}
        for version, date, throughput, pp in (
            ("2.13.0", "2023-08-28", "3", "2"),  # a plan that the next revision corrects
            ("2.13.0", "2023-09-01", "3", "1"),
            ("2.18.0", "2024-04-11", "2", "1"),
            ("2.9.0", "2023-04-13", "4", "1"),
        )
    ]
    uses = [(row["use"], row["reason"]) for row in curate("train", "t", rows)]
    assert [use for use, _ in uses] == ["excluded", "check", "fit", "check"]
    assert uses[0][1] == "restated in t-002"
    assert str(uses[1][1]).endswith("t-003")


def test_one_row_per_metric_in_seconds():
    rows = by_metric()
    assert {name: row["measured"] for name, row in rows.items()} == {
        "ttft": pytest.approx(0.1),
        "tpot": pytest.approx(0.01),
        "output_tokens_per_s": 90,
    }
    assert [row["use"] for row in rows.values()] == ["fit", "fit", "check"]
    assert rows["ttft"]["id"] == "t-001-ttft"
    assert rows["tpot"]["chips"] == 2
    assert set(by_metric(ttft_ms_p50="")) == {"tpot", "output_tokens_per_s"}


@pytest.mark.parametrize(
    ("batch", "tp", "concurrency", "compiled", "rate"),
    [
        ("4", "8", 4, 4, None),
        ("concurrency 16", "8", 16, 16, None),
        ("concurrency 16 (BS32 graph)", "8", 16, 32, None),
        ("concurrency 40 (max-num-seqs 120)", "8", 40, 120, None),
        ("max-concurrency 2", "8", 2, 2, None),
        ("1 (synchronous)", "8", 1, 1, None),
        ("max 32 (throughput)", "8", 32, 32, None),
        ("max 32 (asynchronous@2.46 req/sec)", "8", 32, 32, 2.46),
        ("concurrency 7", "8 (x2 instances)", 4, 4, None),
        ("max (throughput-saturating, in-flight batching)", "8", None, None, None),
    ],
)
def test_the_batch_cell_tells_concurrency_from_graph(batch, tp, concurrency, compiled, rate):
    row = by_metric(batch=batch, tp=tp)["output_tokens_per_s"]
    assert (row["concurrency"], row["compiled_batch"], row["request_rate"]) == (concurrency, compiled, rate)
    assert row["chips"] == (4 if "x2" in tp else 2)


def test_the_graph_of_a_synchronous_run_is_in_the_notes():
    row = by_metric(batch="1 (synchronous)", notes="so synchronous rows still run the batch-32 graph; MEAN values")
    assert (row["tpot"]["concurrency"], row["tpot"]["compiled_batch"]) == (1, 32)
    assert row["tpot"]["statistic"] == "mean"


def test_waiting_is_told_from_prefill():
    rows = by_metric(batch="concurrency 8")
    assert (rows["ttft"]["use"], rows["tpot"]["use"]) == ("bound", "fit")
    rows = by_metric(
        batch="8", notes="Batch; Tensor Parallel; seq 8192", source="x:general/benchmarks/trn1/latency_data"
    )
    assert rows["ttft"]["use"] == "check"
    assert rows["ttft"]["prefill_batch"] == 8
    assert rows["tpot"]["max_length"] == 8192


def test_a_figure_per_request_counts_for_all():
    row = by_metric(batch="concurrency 4 (BS4 graph)", notes="tok/s is PER REQUEST P50")["output_tokens_per_s"]
    assert row["measured"] == 360


@pytest.mark.parametrize(
    ("text", "draft", "tokens", "acceptance", "use"),
    [
        ("none", None, None, None, "fit"),
        ("fused draft Llama-3.2-1B k=7", "llama-3.2-1b", 7, None, "excluded"),
        ("EAGLE3 k=3 (accept 74.1%, len 3.22)", "eagle", 3, pytest.approx(0.741), "check"),
    ],
)
def test_speculation(text, draft, tokens, acceptance, use):
    row = by_metric(speculation=text)["tpot"]
    assert (row["draft_model"], row["draft_tokens"], row["acceptance"]) == (draft, tokens, acceptance)
    assert row["use"] == use


@pytest.mark.parametrize(
    ("changes", "metric", "use", "words"),
    [
        ({"tp": "1 (assumed)"}, "tpot", "excluded", "tensor-parallel degree"),
        ({"input_len": ""}, "tpot", "excluded", "prompt length"),
        ({"notes": "treat as suspect"}, "tpot", "excluded", "suspect"),
        ({"trust": "C-unoptimised port"}, "tpot", "bound", "trust class C"),
        ({"model": "Qwen2.5-VL-7B", "tp": "4"}, "ttft", "bound", "vision"),
        ({"batch": ""}, "tpot", "excluded", "concurrency"),
        # 256 requests of 3,700 tokens and their cache do not fit in 80 GB
        (
            {"model": "Qwen3-0.6B", "instance": "1x H100 80GB", "tp": "1", "batch": "256", "input_len": "3700"},
            "tpot",
            "excluded",
            "memory",
        ),
        ({"model": "Qwen3-0.6B", "instance": "1x H100 80GB", "tp": "1", "batch": "32"}, "tpot", "fit", ""),
    ],
)
def test_an_inference_row_that_cannot_be_fitted_on_says_why(changes, metric, use, words):
    row = by_metric(**changes)[metric]
    assert row["use"] == use
    assert words in row["reason"]


def test_smaller_instances_are_the_machine_with_the_same_chip():
    row = by_metric(instance="inf2.xlarge", tp="2", lnc="", chips="1")["tpot"]
    assert (row["system"], row["chips"], row["lnc"]) == ("inf2.48xlarge", 1, None)
    row = by_metric(instance="trn2.3xlarge", tp="4", lnc="", chips="1")["tpot"]
    assert (row["system"], row["chips"], row["lnc"]) == ("trn2.3xlarge", 1, 2)
    assert "lnc" in row["assumed"].split()


def test_kernels_are_read_from_the_notes():
    for notes, kernels in (
        ("NKI TKG kernels on", "tkg"),
        ("baseline without TKG kernels", "none"),
        ("QKV NKI kernel; tok/s", "qkv"),
        ("", None),
    ):
        assert by_metric(notes=notes)["tpot"]["kernels"] == kernels


def test_collective_sizes_are_nccom_tests():
    row = one("collective", COLLECTIVE)
    assert (row["measured"], row["bytes"], row["chips"], row["use"]) == (pytest.approx(50e-6), 1048576, 16, "fit")
    assert row["busbw"] == pytest.approx(2 * 63 / 64 * 1048576 / 50e-6)
    gathered = one("collective", COLLECTIVE, op="all_gather", ranks="8", lnc="1", source="jimburtoft/cookbook@x")
    assert gathered["bytes"] == 8 * 1048576
    assert gathered["busbw"] == pytest.approx(7 * 1048576 / 50e-6)
    assert one("collective", COLLECTIVE, op="sendrecv", ranks="2")["op"] == "permute"


@pytest.mark.parametrize(
    ("changes", "metric", "use"),
    [
        ({"op": "broadcast"}, "time", "excluded"),
        ({"notes": "2 concurrent streams"}, "time", "excluded"),
        ({"instance": "not stated (added 2025-11-12)"}, "time", "excluded"),
        ({"time_us": "", "bytes": "peak", "busbw": "123.9"}, "busbw", "check"),
        ({"time_us": "", "bytes": "peak"}, "time", "excluded"),
        ({"layer": "torch.distributed eager"}, "time", "bound"),
        ({"layer": "torch.distributed eager", "bytes": "268435456"}, "time", "check"),
        (
            {"layer": "NKI kernel (includes ~100us launch floor)", "time_us": "120", "source": "jimburtoft/cookbook@x"},
            "time",
            "bound",
        ),
        (
            {"layer": "NKI kernel (includes ~100us launch floor)", "time_us": "900", "source": "jimburtoft/cookbook@x"},
            "time",
            "fit",
        ),
    ],
)
def test_collective_uses(changes, metric, use):
    row = one("collective", COLLECTIVE, **changes)
    assert (row["metric"], row["use"]) == (metric, use)


def test_peaks_are_read_in_the_unit_printed():
    changes = {"time_us": "", "bytes": "peak", "busbw": "100"}
    assert one("collective", COLLECTIVE, **changes)["measured"] == 100e9
    assert one("collective", COLLECTIVE, **changes, bw_unit="GiB/s (nccom-test)")["measured"] == 100 * 2.0**30


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ("M1024 K2048 N4096", (1024, 2048, 4096)),
        ("2048^3", (2048, 2048, 2048)),
        ("3600x13824x5120", (3600, 5120, 13824)),
        ("8192 tok x 8192 -> 128", (8192, 8192, 128)),
        ("128x128 tile, 262144 rows", (None, None, None)),
    ],
)
def test_gemm_shapes(shape, sizes):
    row = one("gemm", OPERATOR, shape=shape)
    assert (row["m"], row["k"], row["n"]) == sizes


def test_times_follow_from_rates_and_bandwidths():
    assert one("gemm", OPERATOR)["measured"] == pytest.approx(200e-6)
    flop = 2 * 1024 * 2048 * 4096
    assert one("gemm", OPERATOR, latency_us="", tflops="100")["measured"] == pytest.approx(flop / 100e12)
    moved = 2 * (1024 * 2048 + 2048 * 4096 + 1024 * 4096)
    assert one("gemm", OPERATOR, latency_us="", mem_gbps="500")["measured"] == pytest.approx(moved / 500e9)
    swept = one("gemm", OPERATOR, op="add", shape="best over sweep", latency_us="", mem_gbps="600")
    assert (swept["op"], swept["metric"], swept["measured"], swept["use"]) == (
        "elementwise",
        "bandwidth",
        6e11,
        "check",
    )


def test_attention_shapes():
    row = one("gemm", OPERATOR, op="attention decode", shape="q/kv 80/8 d128 B16 cache 4096 q1")
    names = ("batch", "num_heads", "num_kv_heads", "head_size", "query_tokens", "context_tokens")
    assert tuple(row[name] for name in names) == (16, 80, 8, 128, 1, 4096)
    row = one("gemm", OPERATOR, op="attention prefill causal", shape="q/kv 80/8 d128 B1 q_len 4096")
    assert (row["op"], row["query_tokens"], row["context_tokens"]) == ("attention_prefill", 4096, 4096)


def test_cores_of_the_measured_unit():
    row = one("gemm", OPERATOR)
    assert (row["cores"], row["chips"], row["busy_share"]) == (2, 0.25, 0.25)
    row = one("gemm", OPERATOR, shape="M1024 K2048 N4096 (4 cores busy)")
    assert row["busy_share"] == 1
    row = one("gemm", OPERATOR, unit_measured="1 GPU; 989.4 bf16", instance="p5.4xlarge")
    assert (row["system"], row["cores"], row["chips"], row["lnc"]) == ("p5.48xlarge", 1, 1, None)


def test_what_is_written_can_be_read():
    rows = curate("serve", "t", [INFERENCE, {**INFERENCE, "notes": "a\nb,c", "model": "New"}])
    read = read_measurements("serve", to_csv("serve", rows))
    assert [row.id for row in read] == [row["id"] for row in rows]
    assert read[-1].text("note") == "a b,c"
    assert list(rows[0]) == list(column_names("serve"))


def test_a_table_of_ones_own():
    text = to_text([INFERENCE])
    rows = published("serve", text, "mine")
    assert [row.use for row in rows] == ["fit", "fit", "check"]
    assert rows[0].id == "mine-001-ttft"
    assert published("gemm", to_text([OPERATOR]))[0].measured == pytest.approx(200e-6)
    assert published("collective", to_text([COLLECTIVE]))[0].number("ranks") == 64
    assert published("train", to_text([TRAINING]))[0].measured == 2.0


def to_text(rows):
    lines = [",".join(rows[0])] + [",".join(f'"{cell}"' for cell in row.values()) for row in rows]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("serve", "", "row 1: no header"),
        ("serve", "a,b\n1,2", "row 1: no column model, instance, tp, source"),
        ("serve", "a,b\n1,2,3", "row 2: more cells"),
        ("serve", "a,b", "row 1: no column model, instance, tp, source"),
        ("gemm", "a,b\n1,2", "row 1: no column op, shape, dtype, source"),
        ("serve", ",".join(INFERENCE), "no rows with a measurement"),
        ("train", to_text([TRAINING]) + "\n" + "x" * 200_000, "row 3: field larger than field limit"),
        ("serve", to_text([{**INFERENCE, "output_len": "-5"}]), "serve row 2, column output_tokens: '-5'"),
        ("train", to_text([{**TRAINING, "microbatch": "-1"}]), "row 2, column microbatch_size: '-1' is outside"),
        ("collective", to_text([{**COLLECTIVE, "ranks": "1"}]), "row 2, column ranks: '1' is outside 2"),
    ],
)
def test_a_bad_table_says_where(kind, text, message):
    with pytest.raises(DataError) as caught:
        published(kind, text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_kind_is_refused():
    with pytest.raises(InvalidInputError, match="kind"):
        curate("weather", "t", [])
    with pytest.raises(InvalidInputError, match="kind"):
        published("weather", "a\n1")
