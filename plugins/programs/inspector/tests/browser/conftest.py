"""A real browser without a screen, and an inspector that it looks at.

The browser is the one that ``MEMORANDA_TEST_BROWSER`` names, else a Chromium or Chrome on the PATH, else npm's
``@sparticuz/chromium``, which needs no root. Nothing here runs unless it is asked for: ``nox -s browser``.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.store import Store
from memoranda_inspector import Inspector
from memoranda_inspector.command import DemoModel, fill, serve
from servers import postgres_server

TOKEN = "a-token-for-tests"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
_UNPACK = "import('@sparticuz/chromium').then(m => m.default.executablePath()).then(p => console.log(p))"


def executable(folder: Path) -> str:
    """Return the browser to use; npm's is installed into a folder of the test run where there is no other."""
    named = os.environ.get("MEMORANDA_TEST_BROWSER")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = named or next(filter(None, map(shutil.which, names)), None)
    if found:
        return found
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        pytest.fail("There is no Chromium on the PATH and no npm to install one; set MEMORANDA_TEST_BROWSER.")
    subprocess.run([npm, "install", "--silent", "@sparticuz/chromium"], cwd=folder, check=True, timeout=240)
    unpacked = subprocess.run([node, "-e", _UNPACK], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return unpacked.stdout.strip()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = executable(tmp_path_factory.mktemp("browser"))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield opened
        opened.close()


class Served:
    """An inspector on a thread of its own, and a way to use its store from the test."""

    def __init__(self, url: str, prepare: Callable[[Store], Any]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._url, self._prepare = url, prepare
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def entrance(self) -> str:
        return f"{self.address}/enter?token={TOKEN}"

    @property
    def home(self) -> re.Pattern[str]:
        """The address of the first page, of which the first part is secret."""
        return re.compile(rf"{re.escape(self.address)}/\w+/$")

    def call(self, work: Callable[[Store], Any]) -> Any:
        """Do something with the store, as an agent beside the inspector would."""
        return asyncio.run_coroutine_threadsafe(work(self.store), self._loop).result(60)

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(30)
        self._listening.close()

    def _run(self) -> None:
        self._task = self._loop.create_task(self._work())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._ready.set()
            self._loop.close()

    async def _work(self) -> None:
        async with memoranda.open(self._url) as self.store:
            await self._prepare(self.store)
            self._ready.set()
            await serve(Inspector(self.store, "a store", False, DemoModel(), ("notes",)), self._listening, TOKEN)


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    """Serve an inspector of a URL, with what ``prepare`` puts into its store."""
    with ExitStack() as stack:
        yield lambda url="memory://", prepare=fill: stack.enter_context(Served(url, prepare))


class AnotherProgram(ThreadingHTTPServer):
    """What else the machine serves: it takes note of every request, and sets cookies for its host."""

    def __init__(self, *cookies: str) -> None:
        self.cookies = cookies
        self.requests: list[tuple[str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), _AnotherHandler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class _AnotherHandler(BaseHTTPRequestHandler):
    server: AnotherProgram

    def do_GET(self) -> None:
        self.server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        for cookie in self.server.cookies:
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another</title><link rel=icon href=data:,>")

    def log_message(self, *_: object) -> None:
        """Keep the output of the tests clean."""


@pytest.fixture
def another_program() -> Iterator[Callable[..., AnotherProgram]]:
    """Serve something else on another port, which sets these cookies."""
    started: list[AnotherProgram] = []

    def start(*cookies: str) -> AnotherProgram:
        program = AnotherProgram(*cookies)
        started.append(program)
        threading.Thread(target=program.serve_forever, daemon=True).start()
        return program

    yield start
    for program in started:
        program.shutdown()
        program.server_close()


@pytest.fixture(scope="session")
def postgres_browser() -> Iterator[Any]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgres":
        with request.getfixturevalue("postgres_browser").database() as found:
            yield found
    else:
        yield "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test for anything that its policy refused, or a script that failed."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(15_000)
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    # A page that is left while it asks for news breaks the request off, and htmx tells so.
    broken_off = ("htmx:afterRequest", "htmx:sendAbort", "htmx:sendError")

    def listen(said: Any) -> None:
        if said.type == "error" and not said.text.startswith(broken_off):
            complaints.append(said.text)

    opened.on("console", listen)
    opened.on("dialog", lambda dialog: (complaints.append("a dialog"), dialog.dismiss()))
    yield opened
    context.close()
    assert complaints == []
