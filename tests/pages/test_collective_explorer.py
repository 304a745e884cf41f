"""Collective explorer of the Topology page in Streamlit's own test runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[..., AppTest]


@pytest.fixture
def topology() -> Open:
    """Open the page with parameters of a link."""

    def call(**parameters: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=60)
        for key, value in parameters.items():
            app.query_params[key] = value
        app.run()
        return app.switch_page("pages/topology.py").run()

    return call


def said(app: AppTest) -> str:
    return "\n".join(info.value for info in app.info)


def test_the_explorer_says_time_algorithm_and_ranges(topology: Open) -> None:
    app = topology(xg="ranks", xb="16 MiB", s="trn2.48xlarge")
    assert not app.exception
    assert "All-reduce of 16 MiB over the first 64 logical cores, alone" in said(app)
    assert "Cheapest: mesh up to" in said(app)
    assert "no group leaves its instance" in said(app)
    assert {"Bus bandwidth", "Waits most for"} <= {metric.label for metric in app.metric}


def test_a_group_across_instances_is_compared_with_efa(topology: Open) -> None:
    app = topology(xg="dp", xo="reduce-scatter")
    assert not app.exception
    assert "4 × trn2.48xlarge over EFA takes" in said(app)
    assert "times as long as UltraServer" in said(app)


def test_the_player_walks_through_the_steps(topology: Open) -> None:
    app = topology(xg="ranks", xp="true")
    assert not app.exception
    assert "Step 1 of 64 (reduce-scatter, kangaring, step 1)" in said(app)
    app.slider(key="xs").set_value(64).run()
    assert not app.exception
    assert "Step 64 of 64 (all-gather, kangaring" in said(app)


def test_widgets_change_group_operation_and_algorithm(topology: Open) -> None:
    app = topology()
    app.selectbox(key="xo").set_value("all-gather").run()
    app.selectbox(key="xa").set_value("ring").run()
    assert not app.exception
    assert "All-gather of 64 MiB over 32 logical cores (tensor parallel, 8 groups at once)" in said(app)
    assert "by ring" in said(app)
    assert "The cheapest algorithm takes" in said(app)


@pytest.mark.parametrize(
    "link",
    [
        {"s": "p5.48xlarge", "m": "llama-3.1-8b", "xp": "true"},
        {"s": "trn2.3xlarge", "m": "llama-3.1-8b", "xp": "true"},
        {"s": "trn1.32xlarge", "m": "llama-3.1-8b", "xg": "ranks", "xn": "99"},
        {"s": "trn2.48xlarge", "n": "3", "gb": "768", "m": "llama-3.1-8b", "xg": "dp", "xp": "true"},
        {"xg": "nothing", "xn": "-4", "xb": "3 MiB", "xo": "<b>", "xs": "99999", "xp": "true"},
    ],
)
def test_every_machine_and_bad_links_are_drawn(topology: Open, link: dict[str, str]) -> None:
    app = topology(**link)
    assert not app.exception
    assert [header.value for header in app.subheader] == ["Collective explorer"]
    assert "All-reduce of 64 MiB" in said(app)
