"""Take the pictures of the inspector for the documentation: ``nox -s pictures``, or run this file.

They show the demo's conversations, so nothing in them is private.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import ARGUMENTS, Served, executable

from memoranda_inspector.command import fill

FOLDER = Path(__file__).parents[5] / "docs" / "pages" / "pictures"
WIDTH, HEIGHT = 1280, 1000
HEIGHTS = {"quarantine": 380}
"""How high a picture is whose page is short."""


def take(folder: Path) -> list[Path]:
    """Take every picture into a folder, and return their paths."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    taken = take_receipts(folder)
    with (
        tempfile.TemporaryDirectory() as unpacked,
        Served("memory://?facts=rules", fill) as inspector,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=executable(Path(unpacked)), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(inspector.entrance)
        page.wait_for_url(inspector.home)
        page.get_by_role("link", name="ada").click()
        page.get_by_role("link", name="trip").click()
        page.locator("text=Half answered").wait_for()
        owner = page.url
        for name, (scheme, show) in PICTURES.items():
            page.emulate_media(color_scheme=scheme)
            show(page, owner)
            taken.append(folder / f"inspector-{name}.png")
            page.screenshot(path=taken[-1], clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHTS.get(name, HEIGHT)})
        browser.close()
    return taken


async def dinner(store: Any) -> None:
    """Record the conversation of the page on receipts."""
    code = (FOLDER.parent / "how-to" / "why-did-it-say-that.md").read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code.split("\n\n\nasync with")[0], names)
    await names["dinner"](store)


def take_receipts(folder: Path) -> list[Path]:
    """Take the pictures of receipts, and return their paths."""
    from playwright.sync_api import sync_playwright

    taken = []
    with (
        tempfile.TemporaryDirectory() as unpacked,
        Served("memory://", dinner) as inspector,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=executable(Path(unpacked)), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT - 200})
        page.goto(inspector.entrance)
        page.wait_for_url(inspector.home)
        page.get_by_role("link", name="ada").click()
        page.get_by_role("link", name="dinner").click()
        page.locator("text=I am allergic to peanuts.").first.wait_for()
        owner = page.url
        for name, show in RECEIPTS.items():
            show(page, owner)
            taken.append(folder / f"receipts-{name}.png")
            page.screenshot(path=taken[-1])
        browser.close()
    return taken


def _conversation(page: Any, owner: str) -> None:
    page.goto(owner)
    page.locator(".receipt").first.wait_for()


def _compared(page: Any, owner: str) -> None:
    page.goto(f"{owner}receipts")
    page.get_by_role("button", name="Compare A and B").click()
    page.locator("text=Two contexts beside each other").wait_for()


def _seen(page: Any, owner: str) -> None:
    page.goto(owner)
    page.locator("article", has_text="I am allergic to peanuts.").get_by_label("Details of this item").click()
    page.locator("text=Who has seen this?").wait_for()


RECEIPTS: dict[str, Callable[[Any, str], None]] = {"conversation": _conversation, "compared": _compared, "item": _seen}
"""What to do before each picture of receipts is taken."""


def _context(page: Any, owner: str) -> None:
    page.goto(f"{owner}context")
    page.get_by_label("Tokens").first.fill("150")
    page.get_by_label("For the question").fill("Which seat should I book?")
    page.locator("h3:has-text('New with this question')").wait_for()
    page.evaluate("scrollTo(0, 0)")


def _quarantine(page: Any, owner: str) -> None:
    page.get_by_role("link", name="Quarantine").click()
    page.get_by_role("button", name="Approve").click()
    page.get_by_label("Your name").fill("Vera")


def _item(page: Any, owner: str) -> None:
    page.goto(f"{owner}context")
    page.locator("summary:has-text('a call without all its results')").click()
    page.locator(".reason[open] a").first.click()
    page.locator("text=Does the model see it now?").wait_for()


def _search(page: Any, owner: str) -> None:
    page.goto(f"{owner}search")
    page.get_by_label("by", exact=True).select_option("hybrid with static")
    page.get_by_label("Search").first.fill("Is it going to be wet in Portugal?")
    page.locator("dt:has-text('meaning')").first.wait_for()


PICTURES: dict[str, tuple[str, Callable[[Any, str], None]]] = {
    "context": ("light", _context),
    "item": ("light", _item),
    "search": ("dark", _search),
    "quarantine": ("light", _quarantine),
}
"""The colours of each picture, and what to do before it is taken."""


if __name__ == "__main__":
    for path in take(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        sys.stdout.write(f"{path}\n")
