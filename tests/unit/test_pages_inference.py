"""Inference page as plain data: verdict, presets, charts and their tables say what the estimate says."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import plotly.graph_objects as go
import pytest

from trn2model.model.estimate import estimate
from trn2model.simulate.queue import simulate_scenario
from trn2model.specs.link import decode
from trn2model.specs.scenario import Scenario
from trn2model.ui import estimates
from trn2model.ui.charts.chart import Chart
from trn2model.ui.pages import queue
from trn2model.ui.pages.content import Content, Links
from trn2model.ui.pages.inference import Limits, content, presets
from trn2model.ui.pages.steps import bound_by
from trn2model.ui.view_fields import decode_view

LIMITS = Limits(1.0, 0.05)
SCENARIOS: list[dict[str, Any]] = [
    {},
    {"concurrency": 512},
    {"model": "qwen3-32b", "system": "trn2.48xlarge", "tp": 2},
    {"system": "p5.48xlarge"},
    {"model": "deepseek-v3", "tp": 16, "ep": 16, "concurrency": 32, "kv_dtype": "fp8"},
    {"draft_model": "eagle", "draft_tokens": 3, "acceptance": 0.7, "prefill_replicas": 1, "cp": 2, "pp": 2},
    {"model": "llama-2-7b", "output_tokens": 1, "prefill_chunk": 256},
    {"profile": "ideal"},
]


def page(**values: Any) -> Content:
    return content(estimates.serving(Scenario(**values)), "light", LIMITS)


def charts(whole: Content) -> list[Chart]:
    return [block for row in whole.rows for block in row if isinstance(block, Chart)]


@pytest.mark.parametrize("values", SCENARIOS, ids=str)
def test_every_chart_draws_and_has_words_and_a_table(values: dict[str, Any]) -> None:
    whole = page(**values)
    drawn = charts(whole)
    assert len(drawn) == 6
    for chart in drawn:
        go.Figure(chart.figure)
        assert chart.words.alt
        assert chart.words.file_name.startswith("trn2model-")
        assert chart.table.rows
    assert len({chart.words.title for chart in drawn}) == 6
    assert len(whole.tables()) == 7


def test_the_verdict_names_fit_latency_and_bounds() -> None:
    whole = page()
    assert whole.verdict is not None
    for words in ("Fits: ", "to the first token", "Bound: prefill by", "decode by HBM", "memory would hold"):
        assert words in whole.verdict.text
    assert whole.verdict.tone == "good"
    slow = content(estimates.serving(Scenario()), "dark", Limits(1.0, 0.005)).verdict
    assert slow is not None
    assert slow.tone == "plain"


def test_the_verdict_says_what_does_not_fit() -> None:
    verdict = page(concurrency=512).verdict
    assert verdict is not None
    assert verdict.tone == "bad"
    assert "Does not fit: HBM" in verdict.text


def test_presets_are_links_that_keep_the_machine() -> None:
    scenario = Scenario(system="trn2.48xlarge", tp=16, compiled_batch=256, input_tokens=4_000, context_bucket=4_096)
    found = {title: decode(dict(parse_qsl(query)))[0] for title, query in presets(scenario, LIMITS)}
    assert [(s.input_tokens, s.output_tokens) for s in found.values()] == [
        (2048, 512), (15_360, 1024), (20_480, 50), (102_400, 2048),
    ]  # fmt: skip
    for changed in found.values():
        assert (changed.system, changed.tp, changed.compiled_batch) == ("trn2.48xlarge", 16, "auto")
        assert estimate(changed, "serve").ttft > 0
    links = page().rows[0][0]
    assert isinstance(links, Links)
    assert all(estimate(decode(dict(parse_qsl(query)))[0], "serve").feasible for _, query in links.items)


def test_presets_keep_the_promised_latencies() -> None:
    for limits, texts in (
        (LIMITS, {}),
        (Limits(0.3, 0.03), {"lt": "300", "lp": "30"}),
        (Limits(1, 0.5), {"lp": "500"}),
    ):
        for _, query in presets(Scenario(tp=16), limits):
            assert decode_view(dict(parse_qsl(query))) == (texts, ())


def test_the_promise_names_the_graph_that_it_assumes() -> None:
    """A step of a graph for 64 is slower than one for 8, and the promise is about the latter."""
    limits = Limits(1.0, 0.03)
    for scenario, said in ((Scenario(compiled_batch=64), True), (Scenario(), False)):
        whole = content(estimates.serving(scenario), "light", limits)
        assert whole.verdict is not None
        assert ("With a graph compiled for it instead of one for 64, within 1.00 s" in whole.verdict.text) is said


@pytest.mark.parametrize(
    "values",
    [
        {"concurrency": 512},
        {"model": "llama-3.1-405b"},
        {"concurrency": 24},
        {"concurrency": 65536},
        {"model": "llama-2-7b", "input_tokens": 100_000},
        {"input_tokens": 300, "context_bucket": 1024},
        {"input_tokens": 3_000, "context_bucket": 16_384, "prefix_hit": 0.5},
        {"input_tokens": 20_480, "output_tokens": 9_900_000},
        {"model": "gpt-oss-120b", "system": "p5.48xlarge", "input_tokens": 20_480, "output_tokens": 50},
    ],
    ids=str,
)
def test_the_scenario_lies_on_each_curve(values: dict[str, Any]) -> None:
    scenario = Scenario(**values)
    for chart in charts(page(**values))[3:]:
        lines = [trace for trace in chart.figure["data"] if trace["mode"] != "markers"]
        (own,) = [trace for trace in chart.figure["data"] if trace.get("name", "").startswith("this scenario")]
        x, y = own["x"][0], own["y"][0]
        at = min(range(len(lines[-1]["x"])), key=lambda place: abs(lines[-1]["x"][place] - x))
        assert (lines[-1]["x"][at], lines[-1]["y"][at]) == pytest.approx((x, y), rel=1e-9)
        assert not own["cliponaxis"]
        hollow = lines[-1]["marker"]["color"][at] != lines[-1]["marker"]["line"]["color"]
        assert hollow is not estimates.serving(scenario).feasible
        words = str(chart.figure["layout"]["xaxis"]["title"]) + "".join(trace.get("name", "") for trace in lines)
        assert "hollow: does not fit" in words


def test_token_times_are_shown_with_the_stalls_that_the_limit_counts() -> None:
    chart = charts(page())[5]
    shown = [1e-3 * value for value in chart.figure["data"][-2]["y"]]
    assert shown == pytest.approx(chart.table.column("TPOT with stalls [s]"))
    assert max(shown) > max(float(str(cell)) for cell in chart.table.column("TPOT [s]"))
    assert "prefill stalls included" in chart.figure["layout"]["yaxis"]["title"]["text"]


def test_parts_add_up_in_the_tables() -> None:
    result = estimates.serving(Scenario())
    prefill, decode_step = charts(page())[:2]
    for chart, total in ((prefill, result.ttft), (decode_step, result.tpot)):
        times = chart.table.column("time [s]")
        assert times[-1] == pytest.approx(total)
        assert sum(float(str(time)) for time in times[:-1]) == pytest.approx(total)


def test_a_phase_is_bound_by_one_thing_with_a_share() -> None:
    result = estimates.serving(Scenario())
    assert bound_by(result, "decode")[0] == "HBM bandwidth"
    for phase in ("prefill", "decode"):
        assert 0 < bound_by(result, phase)[1] <= 1


def test_the_queue_is_told_in_a_sentence_a_table_and_a_chart() -> None:
    result = estimates.serving(Scenario())
    rate = queue.arrival_rate(result, 0.5)
    assert rate * 512 == pytest.approx(result.output_tokens_per_s / 2)
    trace = simulate_scenario(Scenario(), rate, 200)
    assert queue.summary(trace).startswith("200 requests in ")
    listing = queue.percentiles(trace)
    assert listing.table.column("latency") == ("time to first token", "time per output token", "whole request")
    chart = queue.in_system(result, trace, "dark")
    go.Figure(chart.figure)
    assert max(len(line["x"]) for line in chart.figure["data"]) <= 2_000
    lone = simulate_scenario(Scenario(output_tokens=1), 1.0, 5)
    assert "–" in queue.percentiles(lone).table.rows[1]
