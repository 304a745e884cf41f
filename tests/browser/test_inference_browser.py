"""Inference page in a real browser: opened first by its own link, driven by sliders and presets, queue and all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Wait = Callable[["Page"], None]


def verdict(page: Page) -> Locator:
    """The sentence that answers the page's question."""
    return page.get_by_test_id("stMain").get_by_test_id("stAlert").first


def press(page: Page, key: str, button: str) -> None:
    """Move the slider of a link key by one stop."""
    page.locator(f".st-key-{key} input[type=range]").first.focus()
    page.keyboard.press(button)


def test_a_link_to_the_page_opens_a_fresh_server(fresh_app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    browser_page.goto(f"{fresh_app_server}/inference?it=3700&lp=20")
    browser_page.get_by_text("20.0 ms per token").first.wait_for(timeout=60_000)
    wait_idle(browser_page)
    assert "Fits: " in verdict(browser_page).inner_text()
    assert browser_page.get_by_text("bucket 4,096").count() > 0

    press(browser_page, "lp", "ArrowRight")
    browser_page.get_by_text("30.0 ms per token").first.wait_for(timeout=20_000)
    assert "lp=30" in browser_page.url
    assert "it=3700" in browser_page.url

    browser_page.get_by_role("link", name="Agent 100k/2k").click()
    browser_page.get_by_text("bucket 102 k").first.wait_for(timeout=60_000)
    assert "/inference" in browser_page.url
    assert "it=102400" in browser_page.url


def test_an_open_table_stays_open_while_a_slider_moves(app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    browser_page.goto(f"{app_server}/inference?tp=8")
    charts = browser_page.get_by_test_id("stPlotlyChart")
    charts.nth(5).wait_for(timeout=60_000)
    wait_idle(browser_page)
    expect(browser_page.get_by_test_id("stDataFrame")).to_have_count(1)
    for number in range(6):
        browser_page.get_by_text("Table", exact=True).nth(number).click()
    expect(browser_page.get_by_test_id("stDataFrame")).to_have_count(7, timeout=30_000)
    before = charts.first.inner_text()
    press(browser_page, "tp", "ArrowRight")
    wait_idle(browser_page)
    expect(charts.first).not_to_have_text(before, use_inner_text=True, timeout=20_000)
    expect(browser_page.get_by_test_id("stDataFrame")).to_have_count(7)


def test_the_queue_shows_progress_and_ends_when_a_slider_moves(
    app_server: str, browser_page: Page, wait_idle: Wait
) -> None:
    browser_page.goto(f"{app_server}/inference?ot=50000")
    run = browser_page.get_by_role("button", name="Run the queue")
    run.wait_for(timeout=60_000)
    wait_idle(browser_page)
    run.click()
    browser_page.get_by_text("1,000 requests in").wait_for(timeout=60_000)
    browser_page.get_by_text("Requests in the system").first.wait_for(timeout=20_000)

    press(browser_page, "queue-count", "ArrowRight")
    browser_page.get_by_text("have changed since the last run").wait_for(timeout=20_000)
    run.click()
    browser_page.get_by_test_id("stProgress").wait_for(timeout=20_000)
    before = verdict(browser_page).inner_text()
    press(browser_page, "lp", "ArrowLeft")
    browser_page.get_by_text("40.0 ms per token").first.wait_for(timeout=20_000)
    wait_idle(browser_page)
    assert verdict(browser_page).inner_text() != before
    expect(browser_page.get_by_test_id("stProgress")).to_have_count(0)
    expect(browser_page.get_by_text("5,000 requests in")).to_have_count(0)


def test_a_trace_of_several_megabytes_arrives_and_a_file_that_fails_is_not_replaced(
    app_server: str, browser_page: Page, wait_idle: Wait
) -> None:
    browser_page.goto(f"{app_server}/inference?lp=&lt=7")
    browser_page.get_by_role("button", name="Run the queue").wait_for(timeout=60_000)
    wait_idle(browser_page)
    expect(browser_page.get_by_text("The link sets")).to_have_count(2)
    assert "lp=" not in browser_page.url
    browser_page.locator(".st-key-queue-arrivals").get_by_text("your own trace").click()
    browser_page.get_by_text("No trace has arrived yet").wait_for(timeout=20_000)
    field = browser_page.locator(".st-key-queue-trace input[type=file]")
    field.set_input_files({"name": "huge.csv", "mimeType": "text/csv", "buffer": b"0" * (17 << 20)})
    browser_page.locator(".st-key-queue-trace").get_by_text("huge.csv").wait_for(timeout=20_000)
    assert browser_page.get_by_role("button", name="Run the queue").is_disabled()
    rows = b"arrival,input,output,note\n" + b"".join(b"%d,100,10,%s\n" % (n, b"x" * 3000) for n in range(1000))
    field.set_input_files({"name": "mine.csv", "mimeType": "text/csv", "buffer": rows})
    browser_page.get_by_text("Arrivals come from").wait_for(timeout=30_000)
    browser_page.get_by_role("button", name="Run the queue").click()
    browser_page.get_by_text("1,000 requests in").wait_for(timeout=60_000)
