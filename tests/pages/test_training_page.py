"""Training page in Streamlit's own test runner: schedules, memory over the step, scaling and the whole run."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
PLANS = [
    {"pp": "4", "tp": "8"},
    {"pp": "4", "tp": "8", "v": "2"},
    {"pp": "4", "tp": "8", "ps": "zb-h1"},
    {"pp": "4", "tp": "8", "ps": "gpipe", "rc": "full", "so": "qkv,attention"},
    {"m": "deepseek-v3", "ep": "16", "tp": "4", "pp": "4", "z": "3", "zg": "instance"},
    {"m": "llama-3.1-8b", "lr": "16", "p": "fp8", "opt": "adamw-bf16-sr", "ol": "false"},
    {"m": "llama-3.1-8b", "mt": "100", "ck": "2", "rs": "60", "tt": "15e12"},
]


def open_training(parameters: dict[str, str]) -> AppTest:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=30)
    for key, value in parameters.items():
        app.query_params[key] = value
    app.run()
    return app.switch_page("pages/training.py").run()


@pytest.mark.parametrize("parameters", PLANS, ids=str)
def test_the_page_draws_the_step_in_time(parameters: dict[str, str]) -> None:
    app = open_training(parameters)
    assert not app.exception
    assert len(app.get("plotly_chart")) == 7
    headings = [block.value for block in app.markdown]
    assert any("The whole training run" in heading for heading in headings)


def test_saved_operators_without_full_recompute_get_a_message() -> None:
    app = open_training({"so": "qkv"})
    assert not app.exception
    assert "Saved operators = qkv" in app.error[0].value
