"""Validation page in a real browser: opened first by its own link, a point and a row chosen, its scenario opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

Wait = Callable[["Page"], None]
_HEADER, _ROW = 36, 35


def facts(page: Page) -> str:
    """What the page says of the measurement it looks at."""
    return page.locator("dl.facts").inner_text()


def test_a_point_shows_its_source_and_opens_its_scenario(
    fresh_app_server: str, browser_page: Page, wait_idle: Wait
) -> None:
    browser_page.goto(f"{fresh_app_server}/validation?vs=trn1.32xlarge&vt=A")
    browser_page.locator("dl.facts").wait_for(timeout=60_000)
    wait_idle(browser_page)
    assert "vs=trn1.32xlarge" in browser_page.url
    worst = facts(browser_page)

    points = browser_page.locator(".js-plotly-plot").first.locator(".points path")
    points.first.wait_for(timeout=20_000)
    box = points.nth(points.count() // 2).bounding_box()
    assert box is not None
    browser_page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    browser_page.get_by_text("Chosen from the chart or the table").wait_for(timeout=20_000)
    clicked = facts(browser_page)
    assert "Source" in clicked

    table = browser_page.get_by_test_id("stDataFrame").first
    table.scroll_into_view_if_needed()
    frame = table.bounding_box()
    assert frame is not None
    browser_page.mouse.click(frame["x"] + 18, frame["y"] + _HEADER + 2.5 * _ROW)
    browser_page.wait_for_function("before => document.querySelector('dl.facts').innerText !== before", arg=clicked)
    chosen = facts(browser_page)
    assert chosen not in (worst, clicked)

    predicted = chosen.split("Predicted")[1].split("(")[0].strip()
    browser_page.get_by_role("link", name="open this scenario").click()
    browser_page.get_by_text("Step time by part").first.wait_for(timeout=60_000)
    assert "/training?" in browser_page.url
    assert predicted in browser_page.get_by_test_id("stMetric").first.inner_text()


def test_a_filter_repaints_and_stays_in_the_link(app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    browser_page.goto(f"{app_server}/validation")
    browser_page.locator("dl.facts").wait_for(timeout=60_000)
    wait_idle(browser_page)
    browser_page.locator(".st-key-vk").get_by_text("collectives", exact=True).click()
    browser_page.get_by_text("Errors by dataset: collectives").wait_for(timeout=20_000)
    assert "vk=collectives" in browser_page.url
    expect(browser_page.get_by_text("A kernel alone")).to_have_count(1)
