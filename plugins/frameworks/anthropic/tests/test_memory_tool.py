"""The memory tool over a store: what it says, what it keeps, and what nobody can do to it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from anthropic.tools import BetaLocalFilesystemMemoryTool, ToolError
from hypothesis import given, settings
from hypothesis import strategies as st

import memoranda
import memoranda.sync
from memoranda.errors import InputError
from memoranda.store import InMemoryStore
from memoranda_anthropic import AsyncMemoryTool, MemoryTool

Command = dict[str, Any]


@pytest_asyncio.fixture
async def tool() -> AsyncIterator[AsyncMemoryTool]:
    async with InMemoryStore() as store:
        yield AsyncMemoryTool(store, user_id="ada")


async def said(tool: AsyncMemoryTool, command: str, **arguments: Any) -> str:
    """Return what the tool answers to a model; what went wrong begins with an exclamation mark."""
    try:
        return str(await tool.call({"command": command, **arguments}))
    except ToolError as error:
        return f"! {error}"


async def files_of(tool: AsyncMemoryTool) -> dict[str, str]:
    """Return the lines of the root folder's listing, and of every file."""
    shown: dict[str, str] = {}
    waiting = ["/memories"]
    while waiting:
        path = waiting.pop()
        shown[path] = await said(tool, "view", path=path)
        for line in shown[path].split("\n")[2:] if shown[path].startswith("Here're") else ():
            _, found = line.split("\t", 1)
            if found.rstrip("/") not in shown and found.rstrip("/") not in waiting:
                waiting.append(found.rstrip("/"))
    return shown


async def test_a_whole_life_of_a_file(tool: AsyncMemoryTool) -> None:
    path = "/memories/notes/ada.txt"
    assert await said(tool, "create", path=path, file_text="tea\r\nmilk\r\n") == f"File created successfully at: {path}"
    assert await said(tool, "create", path=path, file_text="x") == f"! File {path} already exists"
    edited = await said(tool, "str_replace", path=path, old_str="tea", new_str="coffee")
    assert edited.endswith("     1\tcoffee\r\n     2\tmilk\r\n     3\t")
    assert (
        await said(tool, "insert", path=path, insert_line=2, insert_text="sugar") == f"The file {path} has been edited."
    )
    assert (await said(tool, "view", path=path)).endswith("     1\tcoffee\r\n     2\tmilk\r\n     3\tsugar\n     4\t")
    moved = await said(tool, "rename", old_path="/memories/notes", new_path="/memories/old/notes")
    assert moved == "Successfully renamed /memories/notes to /memories/old/notes"
    assert "4K\t/memories/old/\n4K\t/memories/old/notes/" in await said(tool, "view", path="/memories")
    assert await said(tool, "delete", path="/memories/old") == "Successfully deleted /memories/old"
    assert (await said(tool, "view", path=path)).startswith("! The path")


@pytest.mark.parametrize("command", ["delete", "rename"])
@pytest.mark.parametrize("path", ["/memories", "/memories/", "/memories/.", "/memories/a/.."])
async def test_the_folder_itself_stays(tool: AsyncMemoryTool, command: str, path: str) -> None:
    arguments = {"path": path} if command == "delete" else {"old_path": path, "new_path": "/memories/x"}
    assert await said(tool, command, **arguments) == f"! Cannot {command} the /memories directory itself"


OUTSIDE = [
    "/memories/../etc/passwd",
    "/memories/a/../../etc",
    "/memories/%2e%2e/x",
    "/memories/%2e%2e%2fx",
    "/memories/..%2f..%2fx",
    "/memories/%252e%252e%252fx",
    "/memories/..\\x",
    "/memories/a\\..\\..\\x",
    "/memories/\u2025/x",
    "/memories/\uff0e\uff0e/x",
    "/memories/\uff0e\uff0e\uff0fx",
    "/memories/%25252525252e%2e/x",
    "/etc/passwd",
    "memories/x",
    "/memoriesx",
    "",
    "/memories/a\0b",
    None,
    7,
]


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_path_leads_out_in_any_encoding(tool: AsyncMemoryTool, path: Any) -> None:
    before = await files_of(tool)
    for command, arguments in (
        ("view", {"path": path}),
        ("create", {"path": path, "file_text": "x"}),
        ("str_replace", {"path": path, "old_str": "a", "new_str": "b"}),
        ("insert", {"path": path, "insert_line": 0, "insert_text": "x"}),
        ("delete", {"path": path}),
        ("rename", {"old_path": path, "new_path": "/memories/x"}),
        ("rename", {"old_path": "/memories/x", "new_path": path}),
    ):
        assert (await said(tool, command, **arguments)).startswith("! ")
    assert await files_of(tool) == before


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("create", {"path": "/memories/x"}),
        ("create", {"path": "/memories/x", "file_text": 7}),
        ("create", {"path": "/memories/x", "file_text": "a\0b"}),
        ("create", {"path": "/memories/" + "x" * 3000 + "/y", "file_text": ""}),
        ("insert", {"path": "/memories/there", "insert_line": "one", "insert_text": "x"}),
        ("insert", {"path": "/memories/there", "insert_line": 99, "insert_text": "x"}),
        ("str_replace", {"path": "/memories/there"}),
        ("create", {"path": "/memories/there/below", "file_text": ""}),
        ("view", {"path": "/memories/there", "view_range": ["a", "b"]}),
        ("rename", {"old_path": "/memories/folder", "new_path": "/memories/folder/in/itself"}),
        ("view", {}),
    ],
)
async def test_what_a_model_gets_wrong_is_told_to_it(tool: AsyncMemoryTool, command: str, arguments: Command) -> None:
    await said(tool, "create", path="/memories/there", file_text="text")
    await said(tool, "create", path="/memories/folder/file", file_text="text")
    before = await files_of(tool)
    assert (await said(tool, command, **arguments)).startswith("! ")
    assert await files_of(tool) == before


def test_a_tool_needs_to_know_whose_files_these_are() -> None:
    with pytest.raises(InputError, match="whose files"):
        AsyncMemoryTool(InMemoryStore())


def test_the_sync_tool_says_the_same(tmp_path: Path) -> None:
    with memoranda.sync.open(f"sqlite:///{tmp_path / 'memory.db'}") as store:
        tool = MemoryTool(store, user_id="ada")
        tool.call({"command": "create", "path": "/memories/a", "file_text": "one"})
        tool.call({"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "two"})
        assert [change.operation for change in tool.history("/memories/a")] == ["str_replace", "create"]
        assert tool.undo() == "Undone: str_replace of /memories/a"
        assert "one" in str(tool.call({"command": "view", "path": "/memories/a"}))
        assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
        assert tool.clear_all_memory() == "All memory cleared"
        assert MemoryTool(store.scoped(user_id="grace")).history() == []


async def test_what_was_overwritten_or_removed_is_found_again(tool: AsyncMemoryTool) -> None:
    await said(tool, "create", path="/memories/a", file_text="one")
    await said(tool, "str_replace", path="/memories/a", old_str="one", new_str="two")
    await said(tool, "delete", path="/memories/a")
    await said(tool, "create", path="/memories/a", file_text="three")
    assert [change.before[0].text for change in await tool.history("/memories/a")] == ["", "two", "one", ""]


async def test_an_undo_throws_away_nothing_that_came_later(tool: AsyncMemoryTool) -> None:
    await said(tool, "create", path="/memories/a", file_text="one")
    await said(tool, "create", path="/memories/b", file_text="one")
    first = (await tool.history("/memories/a"))[-1]
    await said(tool, "str_replace", path="/memories/a", old_str="one", new_str="two")
    with pytest.raises(ToolError, match="changed since"):
        await tool.undo(first.id)
    assert (await said(tool, "view", path="/memories/a")).endswith("two")


async def test_an_undo_can_be_undone_by_its_id(tool: AsyncMemoryTool) -> None:
    await said(tool, "create", path="/memories/d/a", file_text="one")
    await said(tool, "delete", path="/memories/d")
    await tool.undo()
    assert (await said(tool, "view", path="/memories/d/a")).endswith("one")
    await tool.undo((await tool.history())[0].id)
    assert (await said(tool, "view", path="/memories/d")).startswith("! ")


async def test_a_folder_that_others_filled_stays_when_its_making_is_undone(tool: AsyncMemoryTool) -> None:
    await said(tool, "create", path="/memories/d/a", file_text="one")
    made = (await tool.history())[0]
    await said(tool, "create", path="/memories/d/b", file_text="two")
    await tool.undo(made.id)
    assert (await said(tool, "view", path="/memories/d/b")).endswith("two")
    assert (await said(tool, "view", path="/memories/d/a")).startswith("! ")


async def test_what_is_gone_or_overwritten_is_not_found_by_searches() -> None:
    async with InMemoryStore() as store:
        tool = AsyncMemoryTool(store, user_id="ada")
        await said(tool, "create", path="/memories/a", file_text="secret one")
        await said(tool, "str_replace", path="/memories/a", old_str="one", new_str="two")
        assert [item.content for item in await store.search(query="secret")] == ["secret two"]
        await said(tool, "delete", path="/memories/a")
        assert await store.search(query="secret") == []


async def test_many_who_write_at_once_lose_nothing() -> None:
    async with InMemoryStore() as store:
        tools = [AsyncMemoryTool(store, user_id="ada") for _ in range(8)]
        await asyncio.gather(
            *(said(tool, "create", path="/memories/log", file_text="") for tool in tools),
            *(said(tool, "create", path=f"/memories/d/{n}", file_text=str(n)) for n, tool in enumerate(tools)),
        )
        await asyncio.gather(
            *(
                said(tool, "insert", path="/memories/log", insert_line=0, insert_text=f"{who} {n}")
                for n in range(5)
                for who, tool in enumerate(tools)
            )
        )
        shown = await said(tools[0], "view", path="/memories/log")
        assert all(f"\t{who} {n}\n" in shown for n in range(5) for who in range(8))
        assert (await said(tools[0], "view", path="/memories/d")).count("\n") == 1 + 8


NAMES = st.sampled_from(["a", "b", "c", ".h", "ä b", "~", "%41"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/".join(["/memories", *names]))
TEXT = st.text(st.sampled_from("ab\r\né"), max_size=8)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXT}),
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXT}),
    st.fixed_dictionaries(
        {"command": st.just("str_replace"), "path": PATHS, "old_str": TEXT, "new_str": TEXT},
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 4), "insert_text": TEXT}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS | st.just("/memories/a/..")}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": PATHS | st.just("/memories")},
        optional={"view_range": st.lists(st.integers(-1, 4), min_size=2, max_size=2)},
    ),
)


def answer(tool: Any, command: Command) -> tuple[str, str]:
    try:
        return "said", str(tool.call(command))
    except ToolError as error:
        return "told", str(error)
    except OSError:
        return "told", ""  # Some mistakes a plain folder answers with the operating system's own words.


def on_disk(tool: BetaLocalFilesystemMemoryTool, command: Command) -> tuple[str, str]:
    """Return the answer of the SDK's own tool, in which every folder has the 4K that it has on many file systems."""
    kind, text = answer(tool, command)
    if text.startswith("Here're the files"):
        text = re.sub(r"(?m)^[^\t\n]+(?=\t.*/$)", "4K", text)
        text = re.sub(r"\n[^\t\n]+", "\n4K", text, count=1)  # The folder itself comes first.
    return kind, text


def remove_empty(folder: Path, before: set[Path]) -> None:
    """Remove the folders that a rename which failed has made on its way."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path not in before and path.is_dir():
            with contextlib.suppress(OSError):
                path.rmdir()


@settings(max_examples=2 * settings.default.max_examples)
@given(commands=st.lists(COMMANDS, min_size=1, max_size=15))
def test_it_is_a_plain_folder(commands: list[Command]) -> None:
    with tempfile.TemporaryDirectory() as place, memoranda.sync.open("memory://") as store:
        plain = BetaLocalFilesystemMemoryTool(base_path=place)
        ours = MemoryTool(store, user_id="ada")
        for command in commands:
            there = set(Path(place).rglob("*"))
            expected, found = on_disk(plain, command), answer(ours, command)
            if expected[0] == "told":
                remove_empty(Path(place), there)
            assert found[0] == expected[0], (command, expected, found)
            if expected[1]:
                assert found[1] == expected[1]
            look = {"command": "view", "path": "/memories"}
            assert answer(ours, look) == on_disk(plain, look)


@given(commands=st.lists(COMMANDS, min_size=1, max_size=12))
async def test_every_change_can_be_undone_one_by_one(commands: list[Command]) -> None:
    async with InMemoryStore() as store:
        tool = AsyncMemoryTool(store, user_id="ada")
        states = []
        for command in commands:
            before, known = await files_of(tool), len(await tool.history())
            await said(tool, **command)
            if len(await tool.history()) > known:
                states.append(before)
        for before in reversed(states):
            await tool.undo()
            assert await files_of(tool) == before
        with pytest.raises(ToolError, match="nothing to undo"):
            await tool.undo()


USERS = st.sampled_from(["ada", "grace", "ad", "ada ", "*"])


@given(calls=st.lists(st.tuples(USERS, COMMANDS), min_size=1, max_size=12))
async def test_several_people_in_one_store_never_meet(calls: list[tuple[str, Command]]) -> None:
    async with InMemoryStore() as shared:
        alone: dict[str, AsyncMemoryTool] = {}
        for user, command in calls:
            if user not in alone:
                own = InMemoryStore()
                await own.init()
                alone[user] = AsyncMemoryTool(own, user_id=user)
            together = AsyncMemoryTool(shared, user_id=user)
            assert await said(together, **command) == await said(alone[user], **command)
        for user, tool in alone.items():
            assert await files_of(AsyncMemoryTool(shared, user_id=user)) == await files_of(tool)
