"""Queue of the Inference page in Streamlit's own test runner: it runs beyond HBM, and says so once."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]


def warnings(**parameters: str) -> list[str]:
    """Warnings beside the result of a run of 200 requests."""
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=30)
    for key, value in parameters.items():
        app.query_params[key] = value
    app.run()
    app.switch_page("pages/inference.py").run()
    app.select_slider(key="queue-count").set_value("200").run()
    app.button(key="queue-run").click().run()
    assert not app.exception
    assert any(each.value.startswith("200 requests in ") for each in app.markdown)
    return [each.value for each in app.warning]


def test_a_run_beyond_hbm_is_marked() -> None:
    assert warnings() == []
    (said,) = warnings(c="512")
    assert said.startswith("This scenario does not fit into HBM")
