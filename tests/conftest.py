"""Fixtures every test may use: a running dashboard, and a browser that watches what leaves it.

The browser is Chromium from TRN2MODEL_CHROMIUM, else from its usual places. Without one the browser tests are
skipped, unless TRN2MODEL_REQUIRE_BROWSER=1 says that they must run.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

ROOT: Final = Path(__file__).resolve().parents[1]
HEALTH_PATH: Final = "/_stcore/health"
START_SECONDS: Final = 60.0
# Opened on a page's address, Streamlit asks for its base path below the page (404) before it asks at the root.
BASE_PATH_PROBE: Final = re.compile(r"/[^/]+/_stcore/(health|host-config)")
LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost"})
BROWSER_FIXTURES: Final = frozenset({"app_server", "fresh_app_server", "chromium", "browser_page"})
BROWSER_FOLDERS: Final = ("tests/browser/", "tests/benchmarks/")
CHROMIUM_NAMES: Final = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
CHROMIUM_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# A busy machine must not fail a property: no example has a deadline.
settings.register_profile("house", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs the browser, so that `-m "not browser"` leaves them out."""
    for item in items:
        if BROWSER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Hand whole files to workers, and everything that starts a browser to the same one."""
    from xdist.scheduler import LoadScopeScheduling

    class OneBrowser(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if nodeid.startswith(BROWSER_FOLDERS) else nodeid.partition("::")[0]

    return OneBrowser(config, log)


@pytest.fixture(scope="session")
def app_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a dashboard shared by all tests of a worker, without a trailing slash."""
    with _dashboard(tmp_path_factory.mktemp("app") / "streamlit.log") as url:
        yield url


@pytest.fixture
def fresh_app_server(tmp_path: Path) -> Iterator[str]:
    """Address of a dashboard that no one has visited yet."""
    with _dashboard(tmp_path / "streamlit.log") as url:
        yield url


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Headless Chromium shared by all tests of a worker."""
    executable = _chromium_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()


@dataclass
class BrowserLog:
    """What a page did that no page may do."""

    errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Record console errors, uncaught exceptions and requests to other machines."""
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._on_request(request.url))
        page.on("websocket", lambda websocket: self._on_request(websocket.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        url = str(message.location.get("url", ""))
        if message.type == "error" and not BASE_PATH_PROBE.fullmatch(urlsplit(url).path):
            self.errors.append(f"{message.text} ({url})")

    def _on_request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https", "ws", "wss"} and parts.hostname not in LOCAL_HOSTS:
            self.foreign_requests.append(url)


@pytest.fixture
def browser_log() -> BrowserLog:
    """Console errors and foreign requests of `browser_page`, for tests that expect some and clear them."""
    return BrowserLog()


@pytest.fixture
def browser_page(chromium: Browser, browser_log: BrowserLog) -> Iterator[Page]:
    """Empty browser tab with its own cookies; the test fails if it logs an error or asks another machine."""
    context = chromium.new_context(
        viewport={"width": 1440, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    context.on("page", browser_log.watch)
    page = context.new_page()
    yield page
    context.close()
    assert not browser_log.errors
    assert not browser_log.foreign_requests


@pytest.fixture
def wait_idle() -> Callable[[Page], None]:
    """Function that waits until the dashboard in a tab has drawn everything."""

    def wait(page: Page) -> None:
        page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=30_000)

    return wait


def _chromium_path() -> str:
    candidates = [os.environ["TRN2MODEL_CHROMIUM"]] if os.environ.get("TRN2MODEL_CHROMIUM") else CHROMIUM_NAMES
    for name in candidates:
        if path := shutil.which(name):
            return path
    reason = f"no Chromium found ({', '.join(candidates)}); install it or set TRN2MODEL_CHROMIUM"
    if os.environ.get("TRN2MODEL_REQUIRE_BROWSER") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def _dashboard(log: Path) -> Iterator[str]:
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(port)]
    with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as process:
        try:
            _wait_until_healthy(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if _healthy(port):
            return
        try:
            process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    pytest.fail(f"the dashboard did not start: {log.read_text(errors='replace')[-2000:]}", pytrace=False)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", HEALTH_PATH)
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
