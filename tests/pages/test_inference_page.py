"""Inference page in Streamlit's own test runner: it draws, answers bad scenarios in words, and runs the queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[..., AppTest]


@pytest.fixture
def inference() -> Open:
    """Open the page with parameters of a link."""

    def call(**parameters: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=30)
        for key, value in parameters.items():
            app.query_params[key] = value
        app.run()
        return app.switch_page("pages/inference.py").run()

    return call


def test_the_page_answers_with_a_verdict_and_numbers(inference: Open) -> None:
    app = inference()
    assert not app.exception
    assert app.header[0].value == "Inference"
    assert "Fits: " in app.success[0].value
    assert [metric.label for metric in app.metric][:3] == ["TTFT", "TPOT", "Throughput"]
    assert "Summarise 15k/1k" in "".join(block.proto.body for block in app.get("html"))


def test_what_does_not_fit_and_what_means_nothing_are_told_apart(inference: Open) -> None:
    full = inference(c="512")
    assert not full.exception
    assert "Does not fit" in full.error[0].value
    wrong = inference(c="8", cb="4")
    assert not wrong.exception
    assert "Compiled batch" in wrong.error[0].value
    assert not wrong.metric


def test_a_training_plan_that_means_nothing_still_serves(inference: Open) -> None:
    app = inference(gb="7")
    assert not app.exception
    assert app.metric


def test_promises_move_the_verdict(inference: Open) -> None:
    app = inference()
    app.select_slider(key="lp").set_value("15").run()
    assert not app.exception
    assert "15.0 ms per token" in app.info[0].value


def test_the_queue_runs_on_demand(inference: Open) -> None:
    app = inference()
    assert not any("requests in" in each.value for each in app.markdown)
    app.select_slider(key="queue-count").set_value("200").run()
    app.button(key="queue-run").click().run()
    assert not app.exception
    assert any(each.value.startswith("200 requests in ") for each in app.markdown)


def test_a_trace_that_did_not_arrive_is_not_replaced_by_other_arrivals(inference: Open) -> None:
    app = inference()
    assert not app.get("file_uploader") or all("CSV" not in each.label for each in app.file_uploader)
    app.session_state["queue-arrivals"] = "your own trace"
    app.run()
    assert not app.exception
    assert app.button(key="queue-run").disabled
    assert any("No trace has arrived yet" in each.value for each in app.caption)
    app.file_uploader(key="queue-trace").upload("mine.csv", b"arrival,input,output\n0,100,10\n1,x[0],10\n", "text/csv")
    app.run()
    app.button(key="queue-run").click().run()
    assert "row 3, column input: 'x[0]'" in app.error[0].value
    app.file_uploader(key="queue-trace").upload("mine.csv", b"arrival,input,output\n0,100,10\n1,200,10\n", "text/csv")
    app.run()
    assert any("`mine.csv`" in each.value for each in app.caption)
    app.button(key="queue-run").click().run()
    assert not app.exception
    assert any(each.value.startswith("2 requests in ") for each in app.markdown)


def test_what_auto_chose_is_said() -> None:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=30)
    app.query_params["n"], app.query_params["tp"] = "64", "1"
    app.run()
    assert "Data parallel (dp) = 16384 (chosen by auto) does not work here" in app.error[0].value
