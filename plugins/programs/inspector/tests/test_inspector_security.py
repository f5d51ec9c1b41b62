"""Who gets in, what a page may do, and that whatever is stored is only ever text."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda_inspector.command import DemoModel

HERE = "http://127.0.0.1:8765"
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe\u2066 \x1b[31mred\x1b[0m\x00\x9b31m {{ 7*7 }}"
)


async def test_nothing_is_shown_without_the_token(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo, enter=False) as client:
        for path in ("/", "/health", "/static/inspector.css", "/o/x/", "//", f"/{'0' * 64}/", "/enter/"):
            assert (await client.http.get(path)).status_code == 403


async def test_a_wrong_token_opens_nothing(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo, enter=False) as client:
        for given_token in ("", "wrong", "ä", "a token for test"):
            assert (await client.http.get("/enter", params={"token": given_token})).status_code == 403
        assert (await client.http.get("/")).status_code == 403


async def test_the_token_works_once(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo) as client:
        again = await client.http.get("/enter", params={"token": "a token for tests"})
        assert again.status_code == 403
        assert "set-cookie" not in again.headers


async def test_the_cookie_is_strict_and_out_of_reach_of_scripts(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo, enter=False) as client:
        answer = await client.http.get("/enter", params={"token": "a token for tests"})
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "a token for tests" not in cookie


async def test_neither_the_cookies_nor_an_address_open_anything_without_the_other(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo) as client:
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in client.http.cookies.jar)
        owner = await client.owner("ada")
        client.http.cookies.clear()
        for path in ("/", "/health", "/static/inspector.css", owner.removeprefix(client.root)):
            assert (await client.http.get(path, headers={"Cookie": cookies})).status_code == 403
            assert (await client.http.post(path, headers={"Cookie": cookies})).status_code == 403
            assert (await client.http.get(client.root + path)).status_code == 403
            assert (await client.http.get(client.root + path, headers={"Cookie": cookies})).status_code == 200


@pytest.mark.parametrize(
    "cookies",
    [
        'theme="dark; {ours}',
        '{ours}; theme="dark"; x="',
        "name=Zoë; {ours}; {{}}",
        "\xff=\xfe; {ours}",
        "a b c; =; ;; {ours}",
        "$Version=1; {ours}; $Path=/",
        "{name}=theirs; {ours}; {name}",
        "{ours}; {name}=theirs; {name}=",
        "{name}; a[]=1; @=(),/:;<=>?; {ours}",
        "large=" + "x" * 50_000 + "; {ours}",
    ],
)
async def test_cookies_of_other_programs_lock_nothing(demo: Store, inspecting: Any, cookies: str) -> None:
    async with inspecting(demo) as client:
        (ours,) = client.http.cookies.jar
        sent = cookies.format(ours=f"{ours.name}={ours.value}", name=ours.name)
        client.http.cookies.clear()
        answer = await client.http.get(f"{client.root}/", headers={"Cookie": sent.encode("latin-1")})
        assert answer.status_code == 200
        without = sent.replace(ours.value, "theirs").encode("latin-1")
        assert (await client.http.get(f"{client.root}/", headers={"Cookie": without})).status_code == 403


async def test_pages_of_other_origins_are_never_told_an_address(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo) as client:
        for path in ("/", "/nowhere", f"{client.root}/", f"{client.root}/nowhere"):
            answer = await client.http.get(path)
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in answer.headers
            assert path.startswith(client.root) or client.root not in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1",
        "127.0.0.1:80",
        "",
        "localhost:8765",
        "[::1]:8765",
        "127.1:8765",
    ],
)
async def test_a_foreign_name_of_this_machine_is_refused(demo: Store, inspecting: Any, host: str) -> None:
    async with inspecting(demo) as client:
        assert (await client.http.get(f"{client.root}/", headers={"Host": host})).status_code == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "", "http://127.0.0.1:3000", "https://127.0.0.1:8765", "http://localhost:8765"],
)
async def test_another_page_cannot_post(demo: Store, inspecting: Any, origin: str) -> None:
    async with inspecting(demo) as client:
        assert (await client.http.post(f"{client.root}/", headers={"Origin": origin})).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_another_page_cannot_fetch(demo: Store, inspecting: Any, site: str) -> None:
    async with inspecting(demo) as client:
        home = f"{client.root}/"
        assert (await client.http.get(home, headers={"Sec-Fetch-Site": site})).status_code == 403
        assert (await client.http.get(home, headers={"Sec-Fetch-Site": "same-origin"})).status_code == 200


async def pages_of(client: Any) -> dict[str, str]:
    """Return every kind of page that there is."""
    owner = await client.owner("ada")
    paths = (f"{client.root}/", f"{client.root}/health", owner, owner + "context", owner + "search")
    pages = {path: await client.get(path) for path in paths}
    pages["actions"] = await client.get(owner + "actions")
    pages["found"] = await client.post(owner + "search", {"query": "window seat"})
    pages["settings"] = await client.post(owner + "context", {"question": "seat?", "compare": "1", "b_rounds": "1"})
    pages["everything"] = await client.get(owner + "?archived=1&deleted=1")
    item = re.search(rf'href="({owner}items/[^"/]+)"', pages[owner])
    assert item
    pages["item"] = await client.get(item[1])
    pages["quarantine"] = await client.get(f"{client.root}/quarantine")
    kept = re.search(r'name="item" value="(\w+)"', pages["quarantine"])
    assert kept
    for decision in ("approve", "reject"):
        path = f"{client.root}/quarantine/preview/{decision}"
        pages[decision] = await client.post(path, {"item": kept[1]})
    pages["receipts"] = await client.get(owner + "receipts")
    keys = re.findall(r'name="a" value="(\w+)"', pages["receipts"])
    pages["receipt"] = await client.get(f"{owner}receipts/{keys[0]}")
    pages["compared"] = await client.get(f"{owner}receipts/compare?a={keys[0]}&b={keys[-1]}")
    for action in ("compact", "restore", "forget"):
        pages[action] = await client.post(f"{owner}preview/{action}")
    return pages


async def test_no_page_holds_anything_that_its_policy_forbids(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo, summarizer=DemoModel(), templates=("notes",)) as client:
        policy = (await client.http.get(f"{client.root}/")).headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        for name, page in (await pages_of(client)).items():
            assert re.findall(r"<script(?![^>]*src=)|<style| style=| on\w+=|javascript:|https?://", page) == [], name


async def test_no_address_names_an_owner_or_says_what_is_stored(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo, summarizer=DemoModel(), templates=("notes",)) as client:
        for page in (await pages_of(client)).values():
            for address in re.findall(r'(?:href|action|hx-get|hx-post)="([^"]*)"', page):
                said = re.sub("[0-9a-f]{16,}", "", address)  # Random digits may read "ada".
                assert not re.search("ada|trip|seat|window", said), address


async def test_every_answer_is_kept_nowhere_and_framed_by_nobody(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo) as client:
        for path in ("/", f"{client.root}/", f"{client.root}/static/inspector.js", f"{client.root}/nowhere", "/enter"):
            headers = (await client.http.get(path)).headers
            assert headers["cache-control"] == "no-store"
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"


async def test_whatever_is_stored_is_shown_as_text(store: Store, inspecting: Any) -> None:
    stored = HOSTILE.replace("\x00", "")
    owner = MemoryMetadata(user_id=f"<b>{stored[:40]}", session_id="<i>s")
    call = {"id": "<c>", "name": "<u>tool", "arguments": {"<k>": stored}}
    await store.add_many(
        [
            HumanMemory(content=stored, name="<em>me", metadata=owner),
            AIMemory(tool_calls=[call], content="", metadata=owner),
        ]
    )
    async with inspecting(store) as client:
        listed = await client.get(f"{client.root}/")
        found = re.search(r'href="([^"]+/o/\w+/)"', listed)
        assert found
        pages = [listed, await client.get(found[1]), await client.get(found[1] + "context")]
        pages.append(await client.post(found[1] + "search", {"query": "red", "mode": "substring"}))
        pages.append(await client.post(found[1] + "search", {"query": "<script>"}))
        pages.append(await client.post(found[1] + "preview/forget"))
        for page in pages:
            assert not re.search(r"<script>|<img|<b>.?script|<i>s|<u>|<em>|<c>|<k>", page)
            assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e\u2066]", page)
        assert "{{ 7*7 }}" in pages[1]


async def test_an_item_of_five_megabytes_is_shown_in_part_and_saved_whole(demo: Store, inspecting: Any) -> None:
    owner = MemoryMetadata(user_id="large")
    item = HumanMemory(content="<long> " * 750_000, metadata=owner)
    await demo.add(item)
    async with inspecting(demo) as client:
        address = await client.owner("large")
        assert len(await client.get(address)) < 50_000
        alone = await client.item(address, "<long>")
        assert len(await client.get(alone)) < 1_000_000
        assert len(await client.post(address + "context", {"a_tokens_off": "1"})) < 3_000_000
        whole = await client.http.get(f"{alone}/text")
        assert whole.text == item.content
        assert whole.headers["content-disposition"].startswith("attachment")


async def test_an_item_of_somebody_else_cannot_be_reached_by_its_id(store: Store, inspecting: Any) -> None:
    mine, theirs = (HumanMemory(content=f"of {user}", metadata=MemoryMetadata(user_id=user)) for user in ("ada", "bob"))
    await store.add_many([mine, theirs])
    async with inspecting(store, summarizer=DemoModel()) as client:
        owner = await client.owner("ada")
        for item in (theirs.id, await client.key(await client.owner("bob"), "of bob")):
            for path in ("", "/text", "/sources"):
                answer = await client.http.get(f"{owner}items/{item}{path}")
                assert answer.status_code == 400
                assert "of bob" not in answer.text
            for action in ("preview/delete", "do/delete", "preview/undo", "do/undo", "preview/restore", "do/restore"):
                assert (await client.http.post(owner + action, data={"item": item})).status_code == 400
        assert await store.count() == 2


async def test_a_failure_is_logged_without_what_is_stored(
    demo: Store, inspecting: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(**_: Any) -> Any:
        raise RuntimeError("the window seat is secret")

    async with inspecting(demo) as client:
        owner = await client.owner("ada")
        monkeypatch.setattr(demo, "search_ranked", fail)
        with caplog.at_level(logging.DEBUG):
            answer = await client.http.post(owner + "search", data={"query": "my secret question"})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "memoranda_inspector" in caplog.text
    assert "secret" not in "".join(r.getMessage() for r in caplog.records if r.name.startswith("memoranda_inspector"))


async def test_a_read_only_inspector_has_no_act_at_all(demo: Store, inspecting: Any) -> None:
    async with inspecting(demo, read_only=True) as client:
        owner = await client.owner("ada")
        for path in ("actions", "preview/delete", "do/delete", "do/forget", "export"):
            assert (await client.http.post(owner + path)).status_code == 404
        for path in (owner, owner + "context", owner + "search", owner + "?deleted=1"):
            page = await client.get(path)
            assert not re.search(r"/(preview|do|export|actions)\b", page)


@pytest.mark.parametrize("body", [b"x" * 2_000_000, b"find=%ff%fe", b"&" * 500 + b"a=1" + b"&a=1" * 200])
async def test_a_form_that_is_none_is_refused_with_a_sentence(demo: Store, inspecting: Any, body: bytes) -> None:
    async with inspecting(demo) as client:
        answer = await client.http.post(f"{client.root}/", content=body)
        assert answer.status_code == 400
        assert "form" in answer.text
