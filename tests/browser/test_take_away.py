"""What people take away from the dashboard: pictures, reports, tables; and their own model going in."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Wait = Callable[["Page"], None]
CONFIG = {
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


def open_page(tab: Page, url: str, title: str, wait_idle: Wait) -> None:
    tab.goto(url)
    tab.get_by_role("heading", name=title, exact=True).wait_for(timeout=30_000)
    tab.get_by_role("slider", name="Tensor parallel (tp)").wait_for()
    wait_idle(tab)


def test_a_picture_a_report_and_tables(
    app_server: str, browser_page: Page, chromium: Browser, wait_idle: Wait, tmp_path: Path
) -> None:
    tab = browser_page
    open_page(tab, app_server + "/chip?sl=8192", "Chip", wait_idle)
    charts = tab.locator("[data-testid=stPlotlyChart]")
    tab.locator(".main-svg").nth(4).wait_for()
    expect(charts).to_have_count(3)
    labels = [charts.nth(number).get_attribute("aria-label") for number in range(3)]
    assert all(label and len(label) > 40 for label in labels)
    with tab.expect_download() as picture:
        charts.first.locator("[data-title*='png' i], [data-title*='image' i]").first.click()
    assert picture.value.suggested_filename == "trn2model-roofline-llama-3.1-70b-1xtrn2-ultraserver.png"
    picture.value.save_as(tmp_path / "chart.png")
    width = struct.unpack(">I", (tmp_path / "chart.png").read_bytes()[16:20])[0]
    box = charts.first.bounding_box()
    assert box is not None
    assert width == 3 * round(box["width"])
    tab.get_by_role("button", name="Share").click()
    for label, ending in (("Report (HTML)", "html"), ("Tables (CSV)", "csv"), ("Everything (JSON)", "json")):
        with tab.expect_download() as download:
            tab.get_by_role("button", name=label).click()
        assert download.value.suggested_filename == f"trn2model-chip-llama-3.1-70b-trn2-ultraserver.{ending}"
        download.value.save_as(tmp_path / f"page.{ending}")
    content = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))
    assert content["link"] == app_server + "/chip?sl=8192"
    assert content["estimate"]["feasible"] is True
    assert "# Engine balance by operator" in (tmp_path / "page.csv").read_text(encoding="utf-8")
    context = chromium.new_context(offline=True)
    report = context.new_page()
    asked: list[str] = []
    report.on("request", lambda request: asked.append(request.url))
    report.goto((tmp_path / "page.html").as_uri())
    report.locator(".js-plotly-plot").nth(2).wait_for()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert "sequence 8,192" in report.inner_text("body")
    context.close()


def test_own_model(app_server: str, browser_page: Page, wait_idle: Wait, tmp_path: Path) -> None:
    tab = browser_page
    open_page(tab, app_server + "/?s=trn2.48xlarge&tp=8", "Overview", wait_idle)
    good, bad = tmp_path / "config.json", tmp_path / "broken.json"
    good.write_text(json.dumps(CONFIG), encoding="utf-8")
    bad.write_text('{"model_type": "<img src=x onerror=alert(1)>"}', encoding="utf-8")
    tab.get_by_role("button", name="Your own model").click()
    tab.locator("input[type=file]").first.set_input_files(bad)
    tab.get_by_text(re.compile("broken.json was not used")).wait_for()
    expect(tab.locator("[data-testid=stSidebar] img")).to_have_count(0)
    tab.locator("input[type=file]").first.set_input_files(good)
    tab.get_by_text(re.compile("links open the model chosen above")).wait_for()
    expect(tab.get_by_text("broken.json")).to_have_count(0)
    tab.get_by_text(re.compile(r"^your own model \(llama\) · 1 × trn2\.48xlarge")).first.wait_for()
    tab.keyboard.press("Escape")
    tab.get_by_role("link", name="Training", exact=True).click()
    tab.get_by_role("heading", name="Training", exact=True).wait_for()
    tab.get_by_text(re.compile(r"^your own model \(llama\) · 1 × trn2\.48xlarge")).first.wait_for()
    tab.get_by_role("button", name="Share").click()
    tab.get_by_text("Your own model is not part of the link.").wait_for()
    assert "m=" not in tab.get_by_test_id("stCode").inner_text()


def test_a_dark_phone(app_server: str, chromium: Browser, wait_idle: Wait) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    tab = context.new_page()
    tab.goto(app_server + "/topology?ax=tp")
    tab.get_by_role("heading", name="Topology", exact=True).wait_for(timeout=30_000)
    tab.locator(".main-svg").first.wait_for()
    wait_idle(tab)
    assert tab.evaluate("() => document.scrollingElement.scrollWidth") <= 390
    page = tab.get_by_test_id("stApp").evaluate("e => getComputedStyle(e).backgroundColor")
    paper = tab.locator(".main-svg").first.evaluate("e => getComputedStyle(e).backgroundColor")
    assert page == paper == "rgb(18, 21, 27)"
    scroll = tab.locator("[class*='st-key-wide-']").first.evaluate("e => [e.clientWidth, e.scrollWidth]")
    assert scroll[0] < 390 < 700 < scroll[1]
    context.close()
