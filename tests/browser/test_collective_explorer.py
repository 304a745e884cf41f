"""Collective explorer and link heat map in a real browser: drawn, bound to the address, and moved step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

LINK = "/topology?xg=dp&xo=reduce-scatter&xb=4+MiB&xp=true&xs=2"


def keys(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_a_link_shows_the_explorer_and_the_heat_map(
    app_server: str, browser_page: Page, wait_idle: Callable[[Page], None]
) -> None:
    browser_page.goto(app_server + LINK)
    browser_page.get_by_text("step 2 of 3").first.wait_for(timeout=30_000)
    wait_idle(browser_page)
    browser_page.wait_for_function("document.querySelectorAll('.js-plotly-plot .gtitle').length >= 6")
    titles = browser_page.locator(".js-plotly-plot .gtitle").all_text_contents()
    assert [title.partition(":")[0] for title in titles] == [
        "Link load of all axes",
        "Reduce-scatter",
        "Reduce-scatter",
        "Reduce-scatter",
        "What reduce-scatter waits for",
        "One step of reduce-scatter by RDH",
    ]
    expect(browser_page.locator(".js-plotly-plot .heatmaplayer .hm")).to_have_count(2)
    expect(browser_page.get_by_text("times as long as UltraServer")).to_have_count(1)
    assert keys(browser_page) == {"xg": ["dp"], "xo": ["reduce-scatter"], "xb": ["4 MiB"], "xp": ["true"], "xs": ["2"]}


def test_moving_the_step_moves_the_address_and_survives_a_reload(
    app_server: str, browser_page: Page, wait_idle: Callable[[Page], None]
) -> None:
    browser_page.goto(app_server + LINK)
    browser_page.get_by_text("step 2 of 3").first.wait_for(timeout=30_000)
    wait_idle(browser_page)
    browser_page.locator(".st-key-xs input[type=range]").press("ArrowRight")
    browser_page.get_by_text("step 3 of 3").first.wait_for(timeout=10_000)
    assert keys(browser_page)["xs"] == ["3"]
    browser_page.reload()
    browser_page.get_by_text("step 3 of 3").first.wait_for(timeout=30_000)
    browser_page.get_by_role("button", name="Share").click()
    shared = browser_page.locator("[data-testid=stPopoverBody] code").first.inner_text()
    assert parse_qs(urlsplit(shared).query) == keys(browser_page)
