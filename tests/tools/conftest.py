"""The browser that the tests of the HTML reports use.

How to use it: name ``browser_page`` among a test's arguments. It is Playwright's synchronous ``Page`` in headless
Chromium, fresh for each test; ``browser_page.goto(path.as_uri())`` opens a file. When the test is over, an error of
the page's own script that nothing caught, or a request that left the machine, fails it: a report must work without
either. Skipped, with the reason, where Playwright or a browser is missing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium(own: str) -> str | None:
    """The system's Chromium, else Playwright's (``own`` is where that would be), else None."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return found or (own if os.path.exists(own) else None)


@pytest.fixture
def browser_page() -> Iterator[Any]:
    # Per test: Playwright keeps an event loop running in this thread, and other tests call asyncio.run.
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (it is in the test extra)")
    with sync_api.sync_playwright() as p:
        path = chromium(p.chromium.executable_path)
        if path is None:
            pytest.skip(f"no browser: none of {', '.join(NAMES)} on PATH, and 'playwright install chromium' was not run")
        browser = p.chromium.launch(executable_path=path)
        page = browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else wrong.append(f"asked for {r.url}"))
        yield page
        browser.close()
    assert not wrong, wrong
