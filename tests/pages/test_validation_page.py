"""Validation page in Streamlit's own test runner: verdict, filters, and a scenario that means nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from trn2model.ui.pages import validation

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[..., AppTest]


@pytest.fixture
def page() -> Open:
    """Open the page with parameters of a link."""

    def call(**parameters: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=60)
        for key, value in parameters.items():
            app.query_params[key] = value
        app.run()
        return app.switch_page("pages/validation.py").run()

    return call


def bodies(app: AppTest) -> str:
    return "".join(block.proto.body for block in app.get("html"))


def test_the_page_answers_with_a_verdict_and_errors_by_kind(page: Open) -> None:
    app = page()
    assert not app.exception
    assert app.header[0].value == "Validation"
    assert "published measurements" in app.info[0].value
    assert [metric.label for metric in app.metric][:2] == ["Training step", "Time to first token"]
    assert len(app.get("plotly_chart")) == 3
    assert 'class="facts"' in bodies(app)
    assert 'href="training?' in bodies(app)


def test_filters_come_from_the_link_and_narrow_the_tables(page: Open) -> None:
    app = page(vk="time per output token", vs="trn2.48xlarge", vt="B", vb="false")
    assert not app.exception
    frame = app.dataframe[0].value
    assert set(frame["system"]) == {"trn2.48xlarge"}
    assert set(frame["trust"]) == {"B"}
    assert "bound" not in set(frame["use"])
    app.selectbox(key="vg").set_value("profile").run()
    assert not app.exception
    assert any("Errors by profile: time per output token" in each.value for each in app.markdown)


def test_a_chosen_measurement_is_shown(page: Open) -> None:
    app = page()
    name = app.dataframe[0].value["id"].iloc[3]
    app.session_state[validation.PICKED] = name
    app.run()
    assert not app.exception
    assert any(name in each.value for each in app.markdown)
    assert any("Chosen from" in each.value for each in app.caption)


@pytest.mark.parametrize("link", [{"tp": "7"}, {"vk": "nonsense", "vt": "Z", "vs": "<b>", "vg": "x"}, {"vt": "C"}])
def test_no_scenario_and_no_link_breaks_the_page(page: Open, link: dict[str, str]) -> None:
    app = page(**link)
    assert not app.exception
    assert not app.error
    assert app.metric


@pytest.mark.parametrize("name", ["overview", "training", "inference"])
def test_pages_name_the_profile_and_show_ranges(name: str) -> None:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=60).run()
    if name != "overview":
        app = app.switch_page(f"pages/{name}.py").run()
    assert not app.exception
    assert " to " in app.metric[0].delta
    assert 'href="validation?' in bodies(app)
    assert "No UltraServer measurement has been published" in bodies(app)


def test_error_columns_keep_their_decimal_place_and_nothing_is_a_dash(page: Open) -> None:
    proto = next(
        each.proto for each in page(vk="time to first token").dataframe if "median abs [%]" in each.value.columns
    )
    formats = {name: rules.get("type_config", {}).get("format") for name, rules in json.loads(proto.columns).items()}
    percents = ("mean abs [%]", "median abs [%]", "max abs [%]", "within range [%]", "left-one-group-out mean abs [%]")
    assert {formats[name] for name in percents} == {"%.1f"}
    assert proto.placeholder == "–"
