"""Every page in the test runner: default, presets, a plan that does not fit, a scenario that means nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import ButtonGroup

from trn2model.specs import catalog
from trn2model.specs.link import query_string
from trn2model.ui.pages.overview import PRESETS

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("overview", "chip", "topology", "training", "sources")
TRAINING_PAGES = PAGES[:-1]
TOO_LARGE = {"m": "llama-3.1-405b", "s": "trn2.48xlarge"}
MEANINGLESS = {"tp": "7"}


def open_page(page: str, parameters: Mapping[str, str]) -> AppTest:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=30)
    for key, value in parameters.items():
        app.query_params[key] = value
    app.run()
    return app if page == "overview" else app.switch_page(f"pages/{page}.py").run()


def charts(app: AppTest) -> int:
    return len(app.get("plotly_chart"))


@pytest.mark.parametrize("page", PAGES)
def test_default_page(page: str) -> None:
    app = open_page(page, {})
    assert not app.exception
    assert not app.error
    assert not app.warning
    assert app.header[0].value == page.capitalize()
    assert app.metric
    assert (charts(app) > 0) == (page != "sources")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.title)
def test_preset(page: str, preset) -> None:
    app = open_page(page, dict(parse_qsl(query_string(preset.scenario))))
    assert not app.exception
    assert not app.error
    assert not app.warning


@pytest.mark.parametrize("page", ["overview", "training"])
def test_what_does_not_fit_says_what_is_missing_and_what_helps(page: str) -> None:
    app = open_page(page, TOO_LARGE)
    assert not app.exception
    assert len(app.error) == 1
    text = app.error[0].value
    assert all(word in text for word in ("Does not fit", "HBM per logical core", "24.0 GiB", "To fix it"))
    assert charts(app) > 0


@pytest.mark.parametrize("page", TRAINING_PAGES)
def test_what_means_nothing_gets_one_message_instead_of_charts(page: str) -> None:
    app = open_page(page, MEANINGLESS)
    assert not app.exception
    assert len(app.error) == 1
    text = app.error[0].value
    assert all(word in text for word in ("Tensor parallel (tp) = 7", "attention heads", "To fix it"))
    assert charts(app) == 0
    assert "Llama 3.1 8B on one instance" in "".join(block.proto.body for block in app.get("html"))


def test_unsupported_precision_is_said_in_words() -> None:
    app = open_page("chip", {"s": "p4de.24xlarge", "p": "fp8"})
    assert not app.exception
    assert "fp8" in app.error[0].value


def test_sources_has_its_tables_for_a_scenario_that_means_nothing() -> None:
    app = open_page("sources", MEANINGLESS)
    assert not app.exception
    assert len(app.dataframe) >= 3


def test_sources_can_be_narrowed_to_assumed_figures_of_a_chip() -> None:
    app = open_page("sources", {})
    everything = len(app.dataframe[0].value)
    app.selectbox(key="source_scope").set_value("trainium2")
    app.selectbox(key="source_status").set_value("published").run()
    frame = app.dataframe[0].value
    assert set(frame["of"]) == {"trainium2"}
    assert set(frame["status"]) == {"published"}
    assert len(frame) < everything


@pytest.mark.parametrize("system", catalog.system_names())
def test_topology_draws_every_machine(system: str) -> None:
    app = open_page("topology", {"s": system, "m": "llama-3.1-8b", "ax": "tp", "n": "1"})
    assert not app.exception
    assert charts(app) >= 1 or app.error


def test_topology_shows_a_group_of_a_second_system() -> None:
    app = open_page("topology", {"s": "trn2.48xlarge", "n": "4"})
    buttons = app.get("button_group")[0]
    assert isinstance(buttons, ButtonGroup)
    buttons.set_value("tp").run()
    assert not app.exception
    assert "Tensor parallel: 8 groups of 32 logical cores" in app.info[0].value
    app.number_input(key="gr").set_value(5)
    app.number_input(key="dom").set_value(2).run()
    assert not app.exception
    assert "group 5 spans 8 chips" in app.info[0].value
    assert not any("There is no" in caption.value for caption in app.caption)
    app.number_input(key="gr").set_value(12).run()
    assert "group 7 spans 8 chips" in app.info[0].value
    assert any("There is no 12: this plan has 0 to 7, and 7 is shown." in caption.value for caption in app.caption)


def test_a_bad_link_value_gives_a_notice_and_the_default() -> None:
    app = open_page("overview", {"tp": "many", "sl": "8192"})
    assert not app.exception
    assert len(app.warning) == 1
    assert "`tp`" in app.warning[0].value
    assert app.sidebar.select_slider(key="sl").value == "8192"
    assert app.sidebar.select_slider(key="tp").value == "auto"


@pytest.mark.parametrize("value", ["7", "35", "56", "1000"])
def test_a_slider_carries_any_integer(value: str) -> None:
    app = open_page("overview", {"tp": value})
    assert not app.exception
    assert not app.warning
    assert app.sidebar.select_slider(key="tp").value == value
