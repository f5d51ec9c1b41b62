"""Random trees of ChatGPT's export: every message arrives once, and each path reads as it was said."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memoranda
from memoranda import MemoryItem, MemoryMetadata
from memoranda.integrity import pairs
from memoranda.store import InMemoryStore, Store
from memoranda_userdata import OnConflict, Stamp, Transfer, TransferCounts
from memoranda_userdata.chats.chat_formats import FileFormat
from memoranda_userdata.chats.export_items import Destination, Report, export_items
from memoranda_userdata.chats.import_files import Attachments
from memoranda_userdata.chats.json_records import Record

KINDS = st.sampled_from(["user", "assistant", "call", "tool", "nothing", "empty"])


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """Return a conversation whose nodes say their names. Times are in any order, or missing."""
    mapping: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 14))):
        name = f"n{number}"
        parent = draw(st.sampled_from([None, *mapping, *list(mapping)[-1:] * 5]))
        kind = draw(KINDS)
        message = {
            "author": {"role": {"call": "assistant", "empty": "system"}.get(kind, kind), "name": "t"},
            "content": {"content_type": "text", "parts": ["" if kind == "empty" else f"<{name}>"]},
            "recipient": "t" if kind == "call" else "all",
            "create_time": draw(st.none() | st.integers(1, 50)),
        }
        mapping[name] = {"parent": parent, "message": None if kind == "nothing" else message}
    keys = draw(st.permutations(list(mapping)))
    current = draw(st.none() | st.sampled_from(list(mapping)))
    return {"conversation_id": "talk", "mapping": {key: mapping[key] for key in keys}, "current_node": current}


def said_by(item: MemoryItem) -> list[str]:
    """Return the names of the nodes that an item says, in order."""
    calls = [str(call) for call in getattr(item, "tool_calls", ())]
    found = "".join([item.content, *calls])
    return [part.split(">")[0] for part in found.split("<")[1:]]


def path_to(tree: dict[str, Any], name: str | None) -> list[str]:
    path: list[str] = []
    while name is not None:
        path.append(name)
        name = tree["mapping"][name]["parent"]
    return path[::-1]


def speaks(tree: dict[str, Any], name: str) -> bool:
    message = tree["mapping"][name]["message"]
    return message is not None and bool(message["content"]["parts"][0])


async def imported(store: Store, tree: dict[str, Any]) -> TransferCounts:
    transfer = Transfer(store, OnConflict.FAIL, TransferCounts())
    await transfer.begin()
    destination = Destination(Stamp("ada"), store.derived_id, forks=True)
    found = export_items(iter([Record(1, tree)]), "x", FileFormat.CHATGPT, destination, Attachments(), Report())
    batch = [each.incoming for each in found]
    await transfer.put(batch)
    return transfer.counts


async def check(url: str, tree: dict[str, Any]) -> None:
    async with memoranda.open(url) as store:
        first = await imported(store, tree)
        items = [item async for item in store.scan(metadata=MemoryMetadata(user_id="ada"), order="added")]
        said = Counter(name for item in items for name in said_by(item))
        again = await imported(store, tree)

        assert said == Counter(name for name in tree["mapping"] if speaks(tree, name))
        assert (again.added, again.unchanged) == (0, first.added)
        sessions = {item.metadata.session_id for item in items if item.memory_type != "branch"}
        read: list[list[str]] = []
        for session in sessions:
            owner = MemoryMetadata(user_id="ada", session_id=session)
            shown = (await store.search(metadata=owner, limit=1000, order="created"))[::-1]
            read.append([name for item in shown for name in said_by(item)])
            last = read[-1][-1]
            assert read[-1] == [name for name in path_to(tree, last) if speaks(tree, name)]
            callers = pairs(shown)[0]
            assert all(caller < result for result, caller in callers.items())
        if tree["current_node"] is not None:
            path = [name for name in path_to(tree, tree["current_node"]) if speaks(tree, name)]
            talk = [shown for shown in read if shown[: len(path)] == path]
            assert talk or not path


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(tree=trees())
def test_every_message_of_a_tree_arrives_once_and_in_order(scheme: str, tree: dict[str, Any]) -> None:
    if scheme == "sqlite":
        pytest.importorskip("memoranda_sqlite")
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(check(f"sqlite:///{Path(folder) / 'agent.db'}", tree))
    else:
        asyncio.run(check("memory://", tree))


KEYS = {
    FileFormat.CHATGPT: ["mapping", "current_node", "conversation_id", "create_time"],
    FileFormat.CLAUDE: ["chat_messages", "uuid", "created_at"],
    FileFormat.MEM0: ["memory", "results", "id", "metadata", "role", "created_at", "expiration_date", "actor_id"],
    FileFormat.LANGGRAPH: ["value", "key", "namespace", "prefix", "created_at", "expires_at", "ttl_minutes"],
}
INNER = ["parent", "message", "author", "role", "content", "content_type", "parts", "text", "metadata", "recipient"]
INNER += [
    "sender",
    "type",
    "name",
    "input",
    "attachments",
    "files",
    "extracted_content",
    "asset_pointer",
    "tool_use_id",
]
WORDS = st.sampled_from(
    ["a", "user", "assistant", "human", "tool", "text", "tool_use", "tool_result", "image_asset_pointer", "2025-01-01"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*INNER, "a", "b"]), inner, max_size=5),
    max_leaves=12,
)


@pytest.mark.parametrize("in_format", list(KEYS))
@settings(max_examples=settings.default.max_examples, deadline=None)
@given(data=st.data())
def test_whatever_an_export_holds_it_is_read_or_refused_in_a_sentence(
    in_format: FileFormat, data: st.DataObject
) -> None:
    value = data.draw(st.dictionaries(st.sampled_from(KEYS[in_format]), VALUES, min_size=1))
    if in_format is FileFormat.CHATGPT:
        node = st.fixed_dictionaries(
            {"parent": VALUES, "message": st.dictionaries(st.sampled_from(INNER), VALUES, max_size=6)}
        )
        value["mapping"] = data.draw(st.dictionaries(st.sampled_from("abc"), node | VALUES, max_size=3))
    if in_format is FileFormat.CLAUDE:
        message = st.dictionaries(st.sampled_from([*INNER, "uuid"]), VALUES, max_size=6)
        value["chat_messages"] = data.draw(st.lists(message | VALUES, max_size=3))
    report = Report(collects=True)
    destination = Destination(Stamp("ada"), InMemoryStore().derived_id, forks=True)

    found = list(export_items(iter([Record(1, value)]), "x", in_format, destination, Attachments(), report))

    assert sum(entry.items for entry in report.entries if not entry.refused) == sum(
        each.incoming.item.memory_type != "branch" for each in found
    )
    assert all(entry.refused.endswith(".") for entry in report.entries if entry.refused)


@pytest.mark.parametrize(
    ("in_format", "value"),
    [
        (FileFormat.CHATGPT, {"mapping": {"a": {"message": {"author": {"role": ["user"]}}}}, "id": "t"}),
        (
            FileFormat.CHATGPT,
            {"mapping": {"a": {"message": {"author": {"role": "user"}, "content": {"content_type": []}}}}, "id": "t"},
        ),
        (FileFormat.CLAUDE, {"chat_messages": [{"sender": ["human"], "text": "x"}], "uuid": "t"}),
        (FileFormat.LANGGRAPH, {"key": "k", "prefix": "a", "value": {"x": 1}, "expires_at": 1, "ttl_minutes": "soon"}),
        (FileFormat.LANGGRAPH, {"key": "k", "prefix": "a", "value": {"x": float("nan")}}),
        (FileFormat.MEM0, {"id": "m", "memory": "x", "metadata": {"x": float("inf")}}),
        (FileFormat.MEM0, {"id": "m", "memory": "\ud800"}),
    ],
)
def test_values_of_the_wrong_kind_are_refused_or_left_out(in_format: FileFormat, value: dict[str, Any]) -> None:
    report = Report(collects=True)
    destination = Destination(Stamp("ada"), InMemoryStore().derived_id, forks=True)

    assert list(export_items(iter([Record(1, value)]), "x", in_format, destination, Attachments(), report)) == []
    assert report.refused or report.left_out
