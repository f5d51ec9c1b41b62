"""Every kind of store that the inspector is tested with, and a client that came in through the door."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import memoranda
from memoranda.store import Store
from memoranda_inspector import Inspector, create_app
from memoranda_inspector.command import DemoModel, fill
from servers import Engines

BROWSER = Path(__file__).parent / "browser"
PORT = 8765
TOKEN = "a token for tests"
HERE = f"http://127.0.0.1:{PORT}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave what needs a browser out, unless it is asked for by name."""
    asked = any(Path(argument.partition("::")[0]).resolve().is_relative_to(BROWSER) for argument in config.args)
    return True if collection_path == BROWSER and not asked else None


class Client:
    """A browser without a screen: it keeps cookies, names its origin, and reads pages as text.

    ``root`` is the first part of every address, which the page behind the entrance led to.
    """

    def __init__(self, http: httpx.AsyncClient, root: str = "") -> None:
        self.http = http
        self.root = root

    async def get(self, path: str, **headers: str) -> str:
        answer = await self.http.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def post(self, path: str, form: dict[str, str] | None = None) -> str:
        answer = await self.http.post(path, data=form or {})
        assert answer.status_code in (200, 303), answer.text
        return answer.text

    async def owner(self, name: str, by: str = "user_id") -> str:
        """Return the address of an owner."""
        page = await self.post(f"{self.root}/", {"by": by, "find": name})
        found = re.search(rf'href="([^"]+/o/\w+/)"><bdi>{re.escape(html.escape(name))}</bdi>', page)
        assert found, f"{name} is not listed"
        return found[1]

    async def item(self, owner: str, said: str) -> str:
        """Return the address of the item of an owner that says something."""
        page = await self.get(f"{owner}?archived=1&deleted=1")
        between, text = "(?:(?!</article>|aria-label).)*?", re.escape(html.escape(said))
        found = re.search(rf'href="({owner}items/\w+)" aria-label{between}{text}', page, re.DOTALL)
        assert found, f"{said} is not shown"
        return found[1]

    async def key(self, owner: str, said: str) -> str:
        """Return what a form calls the item of an owner that says something."""
        return (await self.item(owner, said)).rpartition("/")[2]


@asynccontextmanager
async def _inspecting(store: Store, *, enter: bool = True, **options: Any) -> AsyncIterator[Client]:
    """Give a client of an inspector of a store."""
    app = create_app(Inspector(store, "a store", **options), port=PORT, token=TOKEN)
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]  # both know what an ASGI application is
    async with httpx.AsyncClient(transport=transport, base_url=HERE, headers={"Origin": HERE}) as http:
        if not enter:
            yield Client(http)
            return
        home = re.search(r'href="(/\w+)/"', (await http.get("/enter", params={"token": TOKEN})).text)
        assert home
        yield Client(http, home[1])


@pytest.fixture(scope="session")
def inspecting() -> Any:
    """Open an inspector of a store."""
    return _inspecting


@pytest.fixture
def plain() -> Any:
    """Return what a page says, without its marks."""
    return lambda page: re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


SERVERS = [pytest.param(name, marks=pytest.mark.rare(name)) for name in ("postgres", "redis")]


@pytest.fixture(params=["memory", "sqlite", *SERVERS])
async def store(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> AsyncIterator[Store]:
    """A store of each kind, empty."""
    with engines.empty_store(request.param, tmp_path) as url:
        async with memoranda.open(url) as opened:
            yield opened


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    """An inspector of each kind of store, with the demo's conversations in it."""
    await fill(store)
    async with _inspecting(store, summarizer=DemoModel(), templates=("notes",)) as opened:
        yield opened


@pytest.fixture
async def demo() -> AsyncIterator[Store]:
    """The demo in memory, for what does not depend on the store."""
    async with memoranda.open("memory://") as opened:
        await fill(opened)
        yield opened
