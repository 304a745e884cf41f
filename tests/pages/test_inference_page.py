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
