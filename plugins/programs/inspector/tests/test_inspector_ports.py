"""Other programs on other ports of the same machine: they get the browser's cookies, set some, and learn nothing."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from memoranda import MemoryMetadata
from memoranda.store import Store
from memoranda_inspector import Inspector
from memoranda_inspector.command import serve

TOKEN = "a-token-for-tests"


@asynccontextmanager
async def serving(store: Store) -> AsyncIterator[str]:
    """Serve an inspector of a store on a port of its own, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(serve(Inspector(store, "a store"), listening, TOKEN))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def another_program(*set_cookies: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve something else on another port, which sets cookies; give its address and the requests that it gets."""
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        lines = ["HTTP/1.1 200 OK", "Content-Length: 0", "Connection: close"]
        lines += [f"Set-Cookie: {cookie}" for cookie in set_cookies]
        writer.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1_000_000)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen


async def entered(browser: httpx.AsyncClient, address: str) -> str:
    """Come in through the door, and return the address of the first page."""
    welcome = await browser.get(f"{address}/enter", params={"token": TOKEN})
    home = re.search(r'href="(/[^"]+/)"', welcome.text)
    assert home
    return address + home[1]


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """A client that keeps cookies as a browser does: by host and path, whatever the port."""
    async with httpx.AsyncClient() as opened:
        yield opened


async def test_a_program_on_another_port_reads_and_changes_nothing_with_what_it_gets(
    demo: Store, browser: httpx.AsyncClient
) -> None:
    async with serving(demo) as address, another_program() as (other, seen):
        home = await entered(browser, address)
        assert "ada" in (await browser.get(home)).text
        await browser.get(other)
        # Even if it had every cookie of the browser, those of other paths included.
        jar = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies.jar)
        overheard = re.findall(r"(?im)^cookie: (.*?)\r$", seen[0])
        before = await demo.count()
        async with httpx.AsyncClient() as thief:
            for cookies in (jar, *overheard):
                forged = {"Cookie": cookies, "Origin": address, "Sec-Fetch-Site": "same-origin"}
                for path in ("/", "/health", "/everybody", "/static/inspector.js", "/enter", f"/enter?token={TOKEN}"):
                    for method in ("GET", "POST", "HEAD", "PUT", "OPTIONS"):
                        answer = await thief.request(method, address + path, headers=forged)
                        assert answer.status_code == 403
                        assert "ada" not in answer.text
                        assert home.removeprefix(address) not in f"{answer.headers}{answer.text}"
        assert await demo.count() == before
        assert "ada" in (await browser.get(home)).text


async def test_cookies_that_another_program_sets_lock_no_page(demo: Store, browser: httpx.AsyncClient) -> None:
    async with serving(demo) as address:
        home = await entered(browser, address)
        (ours,) = browser.cookies.jar
        odd = ['quoted="a; Path=/', f"{ours.name}=theirs; Path=/"]
        large = [f"large{number}={'x' * 4000}; Path=/" for number in range(40)]
        for cookies in (odd, large[:20], large[20:]):
            async with another_program(*cookies) as (other, _):
                await browser.get(other)
        assert len(list(browser.cookies.jar)) == 1 + len(odd) + len(large)
        page = await browser.get(home)
        assert page.status_code == 200
        owner = re.search(r'href="([^"]+/o/\w+/)"><bdi>ada<', page.text)
        assert owner
        file = await browser.post(f"{address}{owner[1]}export", headers={"Origin": address})
        assert len(file.text.splitlines()) == await demo.count(metadata=MemoryMetadata(user_id="ada")) + 2


async def test_letters_that_are_not_ascii_in_a_cookie_lock_no_page(demo: Store, browser: httpx.AsyncClient) -> None:
    async with serving(demo) as address:
        home = await entered(browser, address)
        (ours,) = browser.cookies.jar
        for foreign in ("name=Zoë", "名=値", 'x="é'):
            sent = f"{foreign}; {ours.name}={ours.value}; {foreign}".encode()
            async with httpx.AsyncClient(headers={"Cookie": sent}) as other_browser:
                assert (await other_browser.get(home)).status_code == 200
