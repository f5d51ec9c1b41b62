"""Ids and names of every shape can be reached, and no character is hidden from whoever looks."""

from __future__ import annotations

import asyncio
import html
import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda import HumanMemory, MemoryMetadata, SummaryMemory
from memoranda.store import Store
from memoranda_inspector.pages import json_text, one_line, shown_name, visible

# Long, and other modules see most faults first: a sample runs by default.
pytestmark = pytest.mark.rare("inspector characters")

ODD = [
    *("/", "//", ".", "..", "../..", "a/b", "/a", "a/", "a/text", "text", "sources", "%2F", "a%2Fb", "%", "%00", "\\"),
    *("?", "?a=1", "#", "a#b", "a b", " a", "a ", "  ", "\t", "a\nb", "a\rb", "a\r\nb", "a\x1bb", "a\u2028b", ";", ":"),
    *('"', "'", "<b>", "&amp;", "&", "+", "{{ 7 }}", "é", "e\u0301", "\u202egnp", "\U000e0041", "🦉", "\u3164"),
    "x" * 1000,
]
"""What a store takes for an id, and a path, a query, a form or a page might take for something else."""

IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200)

# Default_Ignorable_Code_Point, as the Unicode standard has it since version 9; what it reserves is included.
_RANGES = [
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
]
IGNORABLE = frozenset(chr(code) for first, last in _RANGES for code in range(first, last + 1))
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
BRAILLE_BLANK = "\u2800"


def is_unseen(character: str) -> bool:
    return character in IGNORABLE or character == BRAILLE_BLANK or unicodedata.category(character) in UNSEEN


def test_every_character_that_cannot_be_seen_is_marked() -> None:
    # Where all of a plane is ideographs, unassigned or private, some stand for the others.
    for code in (*range(0x20000), *range(0xE0000, 0xE1000), *range(0x20000, 0x110000, 97)):
        character = chr(code)
        shown = visible(f"a{character}b")
        if not is_unseen(character) or character in "\n\t":
            assert shown in (f"a{character}b", f"a⟨U+{code:04X}⟩b")
        elif code < 0x80:
            assert shown == f"a{chr(0x2400 + code) if code < 0x20 else '␡'}b"
        else:
            assert shown == f"a⟨U+{code:04X}⟩b"


def test_what_can_be_seen_is_shown_as_it_is() -> None:
    for text in ("Ünï, 日本語、עברית, العربية, हिन्दी", "14\u00a0°C, e\u0301, 🦉 ♥ 👍🏽 🇳🇴", "a\n\tb", "⟨⟩␀"):
        assert visible(text) == text


def test_emoji_and_scripts_with_joiners_stay_readable() -> None:
    assert visible("❤\ufe0f") == "❤⟨U+FE0F⟩"
    assert visible("👩\u200d🔬") == "👩⟨U+200D⟩🔬"
    assert visible("می\u200cخواهم") == "می⟨U+200C⟩خواهم"


@given(st.text())
def test_no_text_hides_anything_however_it_is_shown(text: str) -> None:
    for shown in (visible(text), one_line(text), shown_name(text)):
        assert not any(is_unseen(character) for character in shown if character not in "\n\t")
    assert len(visible(text)) >= len(text)
    assert not re.search(r"^\s|\s$|\s\s|[^\S ]", shown_name(text))
    assert shown_name(text)


@given(st.text())
def test_json_hides_nothing_and_says_the_same(text: str) -> None:
    written = json_text({"content": text})
    assert json.loads(written) == {"content": text}
    assert not any(is_unseen(character) for character in written if character != "\n")


async def test_no_page_hides_a_character_of_what_is_stored(store: Store, inspecting: Any, plain: Any) -> None:
    hidden = "\U000e0041\U000e0100\u180e\ufffa\u00ad\u2066\u3164\u115f\ufe0f\ue000\u2800"
    owner = MemoryMetadata(user_id=f"u{hidden}", session_id=f"s{hidden}")
    call = {"id": "c", "name": f"t{hidden}", "arguments": {"k": hidden}}
    await store.add_many(
        [
            HumanMemory(id=f"i{hidden}", content=f"said{hidden}", name=f"n{hidden}", metadata=owner),
            memoranda.AIMemory(content="", tool_calls=[call], metadata=owner),
        ]
    )
    signs = "".join(f"⟨U+{ord(character):04X}⟩" for character in hidden)
    async with inspecting(store) as client:
        address = await client.owner(f"u{signs}")
        item = await client.item(address, "said")
        pages = {
            f"u{signs} ": await client.get(f"{client.root}/"),
            f"s{signs}": await client.get(f"{address}sessions"),
            f"said{signs}": await client.get(address),
            f"u{signs}": await client.get(item),
            f"said{signs}"[:79]: await client.post(f"{address}context", {"a_rounds": "0"}),
            f"said{signs} ": await client.post(f"{address}search", {"query": "said", "mode": "substring"}),
            f" said{signs}": await client.post(f"{address}preview/delete", {"item": item.rpartition("/")[2]}),
            f"Type u{signs}": await client.post(f"{address}preview/forget"),
        }
        for sign, page in pages.items():
            assert sign in plain(page.replace("<mark>said</mark>", "said").replace("<b><bdi>", ""))
            assert not any(is_unseen(character) for character in page if character not in "\n\t")


async def reached(client: Any, owner: str, item_id: str, said: str) -> None:
    """Follow the links and forms of an item: its page, its text, what it stands for, deleting and restoring."""
    item = await client.item(owner, said)
    fields = re.search(r'<pre id="fields"[^>]*>(.*?)</pre>', await client.get(item), re.DOTALL)
    assert fields
    assert json.loads(html.unescape(fields[1]))["id"] == item_id
    assert await client.get(f"{item}/text") == said
    key = {"item": item.rpartition("/")[2]}
    assert html.escape(said) in await client.post(f"{owner}preview/delete", key)


async def test_every_id_is_reached_by_its_links_and_forms(store: Store, inspecting: Any) -> None:
    ada = MemoryMetadata(user_id="ada")
    items = [HumanMemory(id=item_id, content=f"said {n:03}.", metadata=ada) for n, item_id in enumerate(ODD)]
    await store.add_many(items[:45])
    await store.add_many(item.model_copy(update={"metadata": MemoryMetadata(user_id="bob")}) for item in items[45:])
    async with inspecting(store) as client:
        for user, part in (("ada", items[:45]), ("bob", items[45:])):
            owner = await client.owner(user)
            for item in part:
                await reached(client, owner, item.id, item.content)


@given(st.one_of(IDS, st.sampled_from(ODD)))
def test_an_item_of_any_id_is_deleted_and_brought_back(inspecting: Any, item_id: str) -> None:
    async def work() -> None:
        async with memoranda.open("memory://") as store, inspecting(store) as client:
            ada = MemoryMetadata(user_id="ada")
            await store.add_many(
                [HumanMemory(id=item_id, content="this", metadata=ada), HumanMemory(content="that", metadata=ada)]
            )
            owner = await client.owner("ada")
            await reached(client, owner, item_id, "this")
            key = {"item": await client.key(owner, "this")}
            assert key["item"].isalnum()
            await client.post(f"{owner}do/delete", key)
            assert await store.get(item_id) is None
            await client.post(f"{owner}preview/restore", key)
            await client.post(f"{owner}do/restore", key)
            assert await store.get(item_id) is not None

    asyncio.run(work())


@pytest.mark.parametrize("item_id", ["a/b", "..", "a\nb", "?#"])
async def test_a_summary_of_any_id_unfolds_and_is_undone(demo: Store, inspecting: Any, item_id: str) -> None:
    zoe = MemoryMetadata(user_id="zoe")
    source = HumanMemory(content="the whole story", archived_by=item_id, metadata=zoe)
    await demo.add(source)
    await demo.add(
        SummaryMemory(id=item_id, content="in short", sources=[source.id], archives={source.id: ""}, metadata=zoe)
    )
    async with inspecting(demo) as client:
        owner = await client.owner("zoe")
        summary = await client.item(owner, "in short")
        assert "the whole story" in await client.get(f"{summary}/sources")
        key = {"item": summary.rpartition("/")[2]}
        assert "the whole story" in await client.post(f"{owner}preview/undo", key)
        await client.post(f"{owner}do/undo", key)
        assert await demo.get(item_id) is None


async def forgotten(client: Any, store: Store, user: str) -> None:
    """Look at a user, its session and its actions by the links of the pages, and forget it by typing what is shown."""
    page = await client.get(f"{client.root}/")
    owner = next(
        address
        for address, name in re.findall(r'href="([^"]+/o/\w+/)"><bdi>(.*?)</bdi>', page)
        if html.unescape(name) == shown_name(user)
    )
    assert "said" in await client.get(owner)
    session = re.search(r'href="([^"]+/o/\w+/)"><bdi>', await client.get(f"{owner}sessions"))
    assert session
    assert "said" in await client.get(session[1])
    assert "said" in await client.post(f"{owner}export")
    typed = re.search(r"Type <b><bdi>(.+?)</bdi>", await client.post(f"{owner}preview/forget"))
    assert typed
    assert (await client.http.post(f"{owner}do/forget", data={"typed": "no"})).status_code == 400
    await client.post(f"{owner}do/forget", {"typed": html.unescape(typed[1])})
    assert await store.count(metadata=MemoryMetadata(user_id=user)) == 0


async def test_users_and_sessions_of_any_name_are_reached_and_forgotten(store: Store, inspecting: Any) -> None:
    users = [*ODD[:45], ""]
    await store.add_many(
        HumanMemory(content="said", metadata=MemoryMetadata(user_id=user, session_id=f"{user}s")) for user in users
    )
    async with inspecting(store) as client:
        for user in users:
            await forgotten(client, store, user)
    assert await store.count() == 0


@given(IDS)
def test_a_user_of_any_name_is_reached_and_forgotten(inspecting: Any, user: str) -> None:
    async def work() -> None:
        async with memoranda.open("memory://") as store, inspecting(store) as client:
            owner = MemoryMetadata(user_id=user, session_id=user)
            await store.add(HumanMemory(content="said", metadata=owner))
            await forgotten(client, store, user)

    asyncio.run(work())


async def test_a_name_is_found_as_it_is_shown(demo: Store, inspecting: Any) -> None:
    await demo.add(HumanMemory(content="hi", metadata=MemoryMetadata(user_id="a\u200bb  c")))
    async with inspecting(demo) as client:
        assert await client.owner("a⟨U+200B⟩b ⟨U+0020⟩c")


async def test_names_that_differ_in_blanks_alone_look_different(demo: Store, inspecting: Any) -> None:
    names = ["x y", "x  y", " x y", "x y ", "x\u00a0y", "x\ty", "x\ny", "x\u2003y"]
    await demo.add_many(HumanMemory(content="hi", metadata=MemoryMetadata(user_id=name)) for name in names)
    async with inspecting(demo) as client:
        listed = re.findall(r"<bdi>(.*?)</bdi>", await client.get(f"{client.root}/"))
        assert len({" ".join(html.unescape(name).split()) for name in listed if "x" in name}) == len(names)


async def test_no_address_holds_an_id(demo: Store, inspecting: Any) -> None:
    await demo.add(HumanMemory(id="her-secret", content="hi", metadata=MemoryMetadata(user_id="zoe")))
    async with inspecting(demo) as client:
        owner = await client.owner("zoe")
        for page in (await client.get(owner), await client.post(f"{owner}context", {"a_rounds": "0"})):
            assert "her-secret" not in " ".join(re.findall(r'(?:href|action|hx-get|hx-post|value)="([^"]*)"', page))
