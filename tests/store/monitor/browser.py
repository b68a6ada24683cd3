"""A page in headless Chromium."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
_OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_WAIT_MS = 40_000

needs_browser = pytest.mark.skipif(
    not CHROMIUM.exists() and "NEEDS_BROWSER" not in os.environ,
    reason="no Chromium at " + str(CHROMIUM),
)


class Page:
    """A page that is open."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self.problems: list[str] = []
        """The errors of the page's program."""
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    async def sees(self, selector: str, text: str) -> None:
        """Return once an element has this text."""
        await self._page.locator(selector, has_text=text).first.wait_for(timeout=_WAIT_MS)

    async def has(self, selector: str, text: str) -> bool:
        """Return whether an element has this text now."""
        return bool(await self._page.locator(selector, has_text=text).count())

    async def lacks(self, selector: str, text: str) -> None:
        """Return once no such element has this text."""
        element = self._page.locator(selector, has_text=text)
        await element.first.wait_for(state="detached", timeout=_WAIT_MS)

    async def click(self, selector: str) -> None:
        """Click on the first such element. The page may replace it meanwhile."""
        await self._page.locator(selector).first.dispatch_event("click")

    async def width(self) -> int:
        """Return the width of the whole document, in pixels."""
        return int(await self._page.evaluate("document.documentElement.scrollWidth"))

    async def save(self, path: Path) -> None:
        """Save a picture of the whole page."""
        await self._page.screenshot(path=path, full_page=True)

    async def press(self, key: str) -> None:
        await self._page.keyboard.press(key)

    async def type(self, text: str) -> None:
        await self._page.keyboard.type(text)


@asynccontextmanager
async def opened(
    url: str, width: int = 1100, scheme: Literal["light", "dark"] = "light"
) -> AsyncIterator[Page]:
    """Return a page that is open in a browser of its own."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=_OPTIONS)
        try:
            view: Any = {"width": width, "height": 800}
            page = await browser.new_page(viewport=view, color_scheme=scheme)
            made = Page(page)
            await page.goto(url)
            yield made
        finally:
            await browser.close()
