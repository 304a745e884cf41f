"""Links in a real browser: what is copied opens again, what is wrong is said, what is hostile does nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

Wait = Callable[["Page"], None]
PAGES = ("overview", "chip", "topology", "training", "inference", "sources")
SCENARIO = {"m": "qwen3-32b", "s": "trn2.48xlarge", "n": "2", "tp": "16", "sl": "6000", "p": "fp8", "sx": "4:16"}


def path_of(page: str) -> str:
    return "/" if page == "overview" else f"/{page}"


def open_page(tab: Page, url: str, page: str, wait_idle: Wait) -> None:
    tab.goto(url)
    settle(tab, page, wait_idle)


def settle(tab: Page, page: str, wait_idle: Wait) -> None:
    tab.get_by_role("heading", name=page.capitalize(), exact=True).wait_for(timeout=30_000)
    slider(tab, "Tensor parallel (tp)").wait_for()
    wait_idle(tab)


def slider(tab: Page, label: str):
    return tab.get_by_role("slider", name=label)


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def configuration(tab: Page) -> str:
    return tab.get_by_text(re.compile("profile ")).first.inner_text()


def copied_link(tab: Page) -> str:
    tab.get_by_role("button", name="Share").click()
    tab.get_by_test_id("stCode").hover()
    tab.get_by_role("button", name="Copy to clipboard").click()
    link = str(tab.evaluate("() => navigator.clipboard.readText()"))
    tab.keyboard.press("Escape")
    return link


def test_a_copied_link_opens_the_same_on_a_fresh_server(
    app_server: str, fresh_app_server: str, browser_page: Page, chromium: Browser, wait_idle: Wait
) -> None:
    links = {}
    parameters = "&".join(f"{key}={quote(value)}" for key, value in SCENARIO.items())
    open_page(browser_page, f"{app_server}/?{parameters}", "overview", wait_idle)
    for page in PAGES:
        browser_page.get_by_role("link", name=page.capitalize(), exact=True).click()
        settle(browser_page, page, wait_idle)
        links[page] = (copied_link(browser_page), configuration(browser_page))
        assert urlsplit(links[page][0]).path == path_of(page)
        assert query(links[page][0]) == SCENARIO
    # The first visitor of a new server comes to a page that is not the first one.
    for page in ("topology", *(name for name in PAGES if name != "topology")):
        link, said = links[page]
        context = chromium.new_context()
        tab = context.new_page()
        open_page(tab, link.replace(app_server, fresh_app_server), page, wait_idle)
        assert configuration(tab) == said
        assert urlsplit(tab.url).path == path_of(page)
        assert query(tab.url) == SCENARIO
        context.close()


def test_a_slider_moves_the_link_and_reload_and_back_keep_it(
    app_server: str, browser_page: Page, wait_idle: Wait
) -> None:
    tab = browser_page
    open_page(tab, app_server + "/training?tp=8", "training", wait_idle)
    slider(tab, "Tensor parallel (tp)").focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_url(re.compile("tp=16"))
    tab.get_by_text(re.compile("tp 16")).first.wait_for()
    tab.reload()
    settle(tab, "training", wait_idle)
    assert slider(tab, "Tensor parallel (tp)").get_attribute("aria-valuetext") == "16"
    tab.get_by_role("link", name="Chip").click()
    settle(tab, "chip", wait_idle)
    assert query(tab.url) == {"tp": "16"}
    tab.go_back()
    settle(tab, "training", wait_idle)
    assert urlsplit(tab.url).path == "/training"
    assert query(tab.url) == {"tp": "16"}
    assert "tp 16" in configuration(tab)
    slider(tab, "Tensor parallel (tp)").focus()
    tab.keyboard.press("Home")
    tab.wait_for_url(lambda url: "tp=" not in url)  # a default leaves the link


def test_a_view_of_the_topology_is_part_of_its_link(app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    tab = browser_page
    open_page(tab, app_server + "/topology?s=trn2.48xlarge&n=4", "topology", wait_idle)
    tab.get_by_role("radio", name="dp", exact=True).or_(tab.get_by_role("button", name="dp", exact=True)).first.click()
    tab.get_by_text(re.compile("Data parallel: ")).wait_for()
    assert query(tab.url)["ax"] == "dp"
    link = copied_link(tab)
    assert query(link) == {"s": "trn2.48xlarge", "n": "4", "ax": "dp"}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (
            "tp=0&pp=1.5&sl=999999999999999999999999999&m=gpt-9&s=moon&p=fp4&sx=3:4&lnc=3&sp=maybe&ph=1.5",
            ("tp", "pp", "sl", "m", "s", "p", "sx", "lnc", "sp", "ph"),
        ),
        (
            "tp=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&m=![x](http://192.0.2.1/x.png)&pl=%5Bx%5D(javascript:alert(1))"
            f"&gb={'9' * 3000}&cb=%00%ff%F0%9F%98%80",
            ("tp", "m", "pl", "gb", "cb"),
        ),
    ],
)
def test_bad_values_are_named_and_replaced(
    app_server: str, browser_page: Page, wait_idle: Wait, text: str, keys: tuple[str, ...]
) -> None:
    tab = browser_page
    dialogs: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    tab.on("dialog", dismiss)
    open_page(tab, f"{app_server}/training?{text}", "training", wait_idle)
    notices = tab.get_by_text(re.compile("The link sets"))
    expect(notices).to_have_count(len(keys))
    said = " ".join(notices.all_inner_texts())
    assert all(f"{key} (" in said for key in keys)
    assert "allowed is" in said
    assert "The default" in said
    assert query(tab.url) == {}
    assert not dialogs
    expect(tab.locator("[data-testid=stMain] img")).to_have_count(0)
    assert "Fits: " in tab.get_by_test_id("stMain").inner_text()
    tab.get_by_role("button", name="Dismiss").click()
    notices.first.wait_for(state="detached")


def test_unknown_keys_and_repeated_keys_do_no_harm(app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    tab = browser_page
    open_page(tab, app_server + "/?utm_source=mail&tp=4&tp=8&__proto__=1&lnc=2", "overview", wait_idle)
    expect(tab.get_by_text(re.compile("The link sets"))).to_have_count(0)
    assert "tp 8" in configuration(tab)
    assert query(copied_link(tab)) == {"tp": "8"}


def test_an_exact_number_and_a_preset(app_server: str, browser_page: Page, wait_idle: Wait) -> None:
    tab = browser_page
    open_page(tab, app_server + "/?m=qwen2.5-7b&s=trn2.48xlarge&gb=1008", "overview", wait_idle)
    tab.get_by_role("button", name="Set an exact number").click()
    tab.get_by_label("Value").fill("7")
    tab.get_by_role("button", name="Set", exact=True).click()
    tab.wait_for_url(re.compile("tp=7"))
    tab.get_by_text(re.compile(r"\btp 7\b")).first.wait_for()
    tab.keyboard.press("Escape")
    tab.get_by_role("link", name="Llama 3.1 405B on one UltraServer").click()
    tab.wait_for_url(re.compile("m=llama-3.1-405b"))
    settle(tab, "overview", wait_idle)
    assert "Fits: " in tab.get_by_test_id("stMain").inner_text()
    assert len(tab.context.pages) == 1
