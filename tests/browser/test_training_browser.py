"""Training page in a real browser: its own link on a fresh server, the schedule, the memory, a slider, a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

Wait = Callable[["Page"], None]


def test_schedule_and_memory_follow_the_plan(fresh_app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    browser_page.goto(f"{fresh_app_server}/training?pp=4&tp=8&ps=zb-h1")
    schedule = browser_page.get_by_text("12 of 128 microbatches").first
    schedule.wait_for(timeout=60_000)
    wait_idle(browser_page)
    assert browser_page.get_by_text("weight gradient").count() > 0
    assert browser_page.get_by_text("stage 4", exact=True).count() > 0
    browser_page.get_by_text("stage 4 of 4 · ").first.wait_for(timeout=20_000)
    browser_page.get_by_text("Scaling over chips").first.wait_for(timeout=20_000)
    expect(browser_page.get_by_text("The whole training run")).to_have_count(1)

    browser_page.locator(".st-key-pp input[type=range]").first.focus()
    browser_page.keyboard.press("ArrowRight")
    browser_page.get_by_text("24 of 256 microbatches").first.wait_for(timeout=30_000)
    assert "pp=8" in browser_page.url
    assert "ps=zb-h1" in browser_page.url


def test_the_schedule_fits_a_phone(app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    browser_page.set_viewport_size({"width": 390, "height": 844})
    browser_page.goto(f"{app_server}/training?pp=4&tp=8")
    title = browser_page.get_by_text("12 of 128 microbatches").first
    title.wait_for(timeout=60_000)
    wait_idle(browser_page)
    title.scroll_into_view_if_needed()
    box = title.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
