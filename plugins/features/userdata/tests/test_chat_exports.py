"""``memoranda import`` of exports of other programs: what was said arrives once and in order, or is accounted for."""

from __future__ import annotations

import base64
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoranda import MemoryItem, MemoryMetadata
from memoranda.integrity import whole_groups
from memoranda.sync import open as open_store
from memoranda.trust import Trust, trust_of
from memoranda_messages import to_anthropic, to_openai

Command = Callable[..., Any]

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


@pytest.fixture(params=["shelf", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        pytest.importorskip("memoranda_sqlite")
        return f"sqlite:///{tmp_path / 'agent.db'}"
    return f"shelf:///{tmp_path / 'memories'}"


@pytest.fixture
def one_url(tmp_path: Path) -> str:
    return f"shelf:///{tmp_path / 'memories'}"


def stored(url: str, **owner: Any) -> list[MemoryItem]:
    """Return what a conversation shows, oldest first; a branch shows its past, too."""
    with open_store(url) as store:
        found = store.search(metadata=MemoryMetadata(**owner), limit=1000, order="added") if owner else []
        return found[::-1] if owner else list(store.scan(order="added"))


def written(tmp_path: Path, value: Any) -> str:
    (tmp_path / "conversations.json").write_text(json.dumps(value))
    return "conversations.json"


def node(
    name: str, parent: str | None, role: str = "user", content: Any = None, *, to: str = "all", **more: Any
) -> dict[str, Any]:
    """Return a node of ChatGPT's mapping; its time is that of its place in the alphabet."""
    if content is None:
        content = {"content_type": "text", "parts": [f"says {name}"]}
    author = {"role": role, "name": more.pop("tool", None), "metadata": {}}
    message = {
        "id": name,
        "author": author,
        "create_time": 1_700_000_000.5 + ord(name[0]),
        "content": content,
        "recipient": to,
        "metadata": {},
        **more,
    }
    return {"id": name, "message": message, "parent": parent, "children": []}


def conversation(*nodes: dict[str, Any], current: str | None = None, name: str = "talk") -> dict[str, Any]:
    root = {"id": "root", "message": None, "parent": None, "children": []}
    mapping = {each["id"]: each for each in (root, *nodes)}
    for each in nodes:
        if each["parent"] in mapping:
            mapping[each["parent"]]["children"].append(each["id"])
    last = nodes[-1]["id"] if nodes else "root"
    return {
        "title": "A title",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_900.0,
        "mapping": mapping,
        "current_node": current or last,
        "conversation_id": name,
    }


TALK = conversation(
    node("a", "root", "system", {"content_type": "text", "parts": [""]}),
    node("b", "a"),
    node("c", "b", "assistant"),
    node("d", "c"),
    node("e", "d", "assistant"),
    node("x", "c"),
    node("y", "x", "assistant"),
    node("z", "x", "assistant"),
    current="e",
)


def texts(items: list[MemoryItem]) -> list[str]:
    return [item.content for item in items]


def branch_of(url: str, text: str) -> str:
    (item,) = [item for item in stored(url) if item.content == text]
    return str(item.metadata.session_id)


def test_a_chatgpt_conversation_is_a_session_and_its_edits_are_branches(
    command: Command, tmp_path: Path, url: str
) -> None:
    result = command("import", written(tmp_path, [TALK]), "--user", "ada", "--store", url)

    assert result.exit_code == 0, result.stderr
    assert "9 added" in result.stderr
    shown = stored(url, user_id="ada", session_id="talk")
    assert texts(shown) == ["says b", "says c", "says d", "says e"]
    assert [item.memory_type for item in shown] == ["human", "ai", "human", "ai"]
    assert shown[0].created_at == "2023-11-14T22:14:58.500000+00:00"
    assert texts(stored(url, user_id="ada", session_id=branch_of(url, "says x"))) == [
        *("says b", "says c", "says x", "says z")
    ]
    assert texts(stored(url, user_id="ada", session_id=branch_of(url, "says y"))) == [
        *("says b", "says c", "says x", "says y")
    ]


def test_importing_an_export_again_adds_nothing_and_a_newer_one_what_is_new(
    command: Command, tmp_path: Path, url: str
) -> None:
    command("import", written(tmp_path, [TALK]), "--user", "ada", "--store", url)
    again = command("import", "conversations.json", "--user", "ada", "--store", url)
    grown = json.loads(json.dumps(TALK))
    grown["mapping"] |= {"f": node("f", "e"), "q": node("q", "y")}
    grown["current_node"] = "f"
    newer = command("import", written(tmp_path, [grown]), "--user", "ada", "--store", url)

    assert "0 added, 9 unchanged" in again.stderr
    assert "2 added, 9 unchanged" in newer.stderr
    assert texts(stored(url, user_id="ada", session_id="talk"))[-1] == "says f"
    assert texts(stored(url, user_id="ada", session_id=branch_of(url, "says q")))[-2:] == ["says y", "says q"]


def test_a_conversation_that_was_edited_since_is_overwritten_on_request(
    command: Command, tmp_path: Path, url: str
) -> None:
    command("import", written(tmp_path, [TALK]), "--user", "ada", "--store", url)
    edited = TALK | {"current_node": "z"}

    refused = command("import", written(tmp_path, [edited]), "--user", "ada", "--store", url)
    done = command("import", "conversations.json", "--user", "ada", "--on-conflict", "overwrite", "--store", url)

    assert refused.exit_code == 4
    assert done.exit_code == 0, done.stderr
    assert texts(stored(url, user_id="ada", session_id="talk")) == ["says b", "says c", "says x", "says z"]
    assert texts(stored(url, user_id="ada", session_id=branch_of(url, "says e"))) == [
        *("says b", "says c", "says d", "says e")
    ]


def test_two_users_may_import_the_same_export(command: Command, tmp_path: Path, url: str) -> None:
    for user in ("ada", "bob"):
        result = command("import", written(tmp_path, [TALK]), "--user", user, "--store", url)
        assert "9 added" in result.stderr

    assert len(stored(url, user_id="bob", session_id="talk")) == 4


def test_a_first_message_that_was_edited_begins_a_session_of_its_own(
    command: Command, tmp_path: Path, url: str
) -> None:
    talk = conversation(node("a", "root"), node("b", "a", "assistant"), node("c", "root"), current="c")

    assert command("import", written(tmp_path, [talk]), "--user", "ada", "--store", url).exit_code == 0

    assert texts(stored(url, user_id="ada", session_id="talk")) == ["says c"]
    assert texts(stored(url, user_id="ada", session_id=branch_of(url, "says a"))) == ["says a", "says b"]


def test_a_store_without_branches_gets_the_path_that_is_shown(command: Command, tmp_path: Path) -> None:
    url = f"plain:///{tmp_path / 'memories'}"

    result = command("import", written(tmp_path, [TALK]), "--user", "ada", "--store", url)

    assert result.exit_code == 0, result.stderr
    assert texts(stored(url, user_id="ada")) == ["says b", "says c", "says d", "says e"]
    assert "Left out: items of other branches, which this store cannot keep (3)" in result.stderr


CALLING = conversation(
    node("a", "root"),
    node("b", "a", "assistant", {"content_type": "code", "language": "unknown", "text": "search('x')"}, to="browser"),
    node("c", "b", "tool", {"content_type": "tether_quote", "text": "found"}, tool="browser"),
    node("d", "c", "tool", {"content_type": "execution_output", "text": "more"}, tool="browser"),
    node("e", "d", "assistant", {"content_type": "code", "text": '{"q": 1}'}, to="python"),
    node("f", "e", "assistant", {"content_type": "thoughts", "thoughts": []}),
    node("g", "f", "tool", {"content_type": "execution_output", "text": ""}, tool="python"),
    node("h", "g", "assistant"),
    node("i", "h", "tool", tool="elsewhere"),
)


def test_the_calls_and_results_of_chatgpt_are_pairs(command: Command, tmp_path: Path, url: str) -> None:
    result = command("import", written(tmp_path, [CALLING]), "--user", "ada", "--store", url)

    assert result.exit_code == 0, result.stderr
    items = stored(url, user_id="ada", session_id="talk")
    function = {"name": "browser", "arguments": '{"input": "search(\'x\')"}'}
    assert to_openai(whole_groups(items)) == [
        {"role": "user", "content": "says a"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "b", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "b", "content": "found\nmore"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "e", "type": "function", "function": {"name": "python", "arguments": '{"q": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "e", "content": ""},
        {"role": "assistant", "content": "says h"},
    ]
    assert texts(items)[-1] == "says i"  # It answers no call: it is stored, and no model is shown it.


def asset(name: str) -> dict[str, Any]:
    return {"content_type": "image_asset_pointer", "asset_pointer": f"file-service://{name}", "size_bytes": 70}


PICTURES = conversation(
    node("a", "root", "user", {"content_type": "multimodal_text", "parts": [asset("file-1A"), "What is it?"]}),
    node("b", "a", "assistant"),
    node("c", "b", "user", {"content_type": "multimodal_text", "parts": [asset("file-2B")]}),
)


def of_folder(tmp_path: Path) -> str:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").write_text(json.dumps([PICTURES]))
    (folder / "file-1A-photo.dat").write_bytes(PICTURE)
    (folder / "file-1AB-other.png").write_bytes(b"another")
    return "export"


def of_file(tmp_path: Path) -> str:
    return f"{of_folder(tmp_path)}/conversations.json"


def of_archive(tmp_path: Path) -> str:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([PICTURES]))
        archive.writestr("images/file-1A-photo.png", PICTURE)
    return "export.zip"


@pytest.mark.parametrize("export", [of_folder, of_file, of_archive])
def test_images_are_attached_where_the_export_has_them(
    command: Command, tmp_path: Path, one_url: str, export: Callable[[Path], str]
) -> None:
    result = command("import", export(tmp_path), "--user", "ada", "--store", one_url)

    assert result.exit_code == 0, result.stderr
    assert "Left out: images that are not in the export (1)" in result.stderr
    url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    assert to_openai(stored(one_url, user_id="ada", session_id="talk")) == [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}],
        },
        {"role": "assistant", "content": "says b"},
        {"role": "user", "content": "[image]"},
    ]


def test_an_archive_with_several_files_of_conversations_is_read_as_one(
    command: Command, tmp_path: Path, one_url: str
) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for number in range(3):
            talk = conversation(node("a", "root"), name=f"talk-{number}")
            archive.writestr(f"conversations-00{number}.json", json.dumps([talk]))

    result = command("import", "export.zip", "--user", "ada", "--store", one_url)

    assert "as 3 sessions: 3 added" in result.stderr


def test_nothing_imported_speaks_with_more_authority_than_its_role(
    command: Command, tmp_path: Path, one_url: str
) -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    instructions = {"content_type": "user_editable_context", "user_profile": "I am Ada.", "user_instructions": "Short."}
    talk = conversation(
        node("a", "root", "system", metadata=hidden),
        node("b", "a", "system", instructions, metadata=hidden | {"is_user_system_message": True}),
        node("c", "b"),
    )
    result = command("import", written(tmp_path, [talk]), "--user", "ada", "--store", one_url)

    assert "hidden instructions (1)" in result.stderr
    items = stored(one_url, user_id="ada")
    assert texts(items) == ["I am Ada.\nShort.", "says c"]
    assert [trust_of(item) for item in items] == [Trust.USER, Trust.USER]


CLAUDE = {
    "uuid": "chat-1",
    "name": "A title",
    "created_at": "2025-01-01T10:00:00.000000Z",
    "updated_at": "2025-01-01T11:00:00.000000Z",
    "account": {"uuid": "account-1"},
    "chat_messages": [
        {
            "uuid": "m1",
            "text": "How warm is it?",
            "content": [{"type": "text", "text": "How warm is it?", "citations": []}],
            "sender": "human",
            "created_at": "2025-01-01T10:00:01Z",
            "attachments": [{"file_name": "places.txt", "file_type": "txt", "extracted_content": "Oslo"}],
            "files": [{"file_name": "map.png"}],
        },
        {
            "uuid": "m2",
            "text": "",
            "content": [
                {"type": "thinking", "thinking": "Look it up."},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "name": "weather", "input": {"city": "Oslo"}},
                {
                    "type": "tool_result",
                    "name": "weather",
                    "content": [{"type": "text", "text": "7"}],
                    "is_error": False,
                },
                {"type": "text", "text": "Seven degrees."},
            ],
            "sender": "assistant",
            "created_at": "2025-01-01T10:00:05Z",
            "attachments": [],
            "files": [],
        },
        {"uuid": "m3", "text": "Thanks.", "content": [], "sender": "human", "created_at": "2025-01-01T10:01:00Z"},
    ],
}


def test_a_claude_export_is_read_with_its_calls_and_texts(command: Command, tmp_path: Path, url: str) -> None:
    for counted in ("5 added", "0 added, 5 unchanged"):
        result = command("import", written(tmp_path, [CLAUDE]), "--user", "ada", "--store", url)
        assert result.exit_code == 0, result.stderr
        assert counted in result.stderr
    assert "parts of the model's reasoning (1)" in result.stderr
    assert "files that are not in the export (1)" in result.stderr
    items = stored(url, user_id="ada", session_id="chat-1")
    assert to_anthropic(items)[1] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "How warm is it?"}, {"type": "text", "text": "places.txt:\nOslo"}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "m2-2", "name": "weather", "input": {"city": "Oslo"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "m2-2", "content": "7"}]},
        {"role": "assistant", "content": "Seven degrees."},
        {"role": "user", "content": "Thanks."},
    ]
    assert [item.created_at[11:19] for item in items] == [*("10:00:01", "10:00:05", "10:00:05", "10:00:05", "10:01:00")]


def test_the_branches_of_a_claude_export_are_branches(command: Command, tmp_path: Path, url: str) -> None:
    def message(name: str, parent: str, sender: str) -> dict[str, Any]:
        return {"uuid": name, "parent_message_uuid": parent, "sender": sender, "text": f"says {name}"}

    talk = {
        "uuid": "chat",
        "chat_messages": [
            message("a", "none", "human"),
            message("b", "a", "assistant"),
            message("c", "a", "assistant"),
            message("d", "c", "human"),
        ],
    }

    assert command("import", written(tmp_path, [talk]), "--user", "ada", "--store", url).exit_code == 0
    assert texts(stored(url, user_id="ada", session_id="chat")) == ["says a", "says c", "says d"]
    assert texts(stored(url, user_id="ada", session_id=branch_of(url, "says b"))) == ["says a", "says b"]
    assert "0 added" in command("import", "conversations.json", "--user", "ada", "--store", url).stderr


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(tmp_path / "other.db")
    yield made
    made.close()


SAID = [
    {"role": "user", "content": "2 + 2?"},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "4"},
    {"role": "assistant", "content": "Four."},
]


def test_sessions_of_the_agents_sdk_are_sessions(
    command: Command, tmp_path: Path, url: str, database: sqlite3.Connection
) -> None:
    database.execute("CREATE TABLE agent_sessions (session_id TEXT)")
    database.execute(
        "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TEXT)"
    )
    for number, said in enumerate([*SAID, {"role": "user", "content": "elsewhere"}]):
        session = "one" if number < len(SAID) else "two"
        database.execute(
            "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)",
            [session, json.dumps(said), f"2025-01-01 10:00:0{number}"],
        )
    database.commit()

    for counted in ("as 2 sessions: 5 added", "0 added, 5 unchanged"):
        result = command("import", "other.db", "--user", "ada", "--store", url)
        assert result.exit_code == 0, result.stderr
        assert counted in result.stderr

    items = stored(url, user_id="ada", session_id="one")
    assert [item.memory_type for item in items] == ["human", "ai", "tool", "ai"]
    assert [item.created_at[11:19] for item in items] == ["10:00:00", "10:00:01", "10:00:02", "10:00:03"]
    assert whole_groups(items) == items


def test_encrypted_sessions_are_refused(command: Command, one_url: str, database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE agent_messages (id INTEGER, session_id TEXT, message_data TEXT, created_at TEXT)")
    database.execute("INSERT INTO agent_messages VALUES (1, 's', '{\"__enc__\": 1}', NULL)")
    database.commit()

    result = command("import", "other.db", "--store", one_url)

    assert result.exit_code == 2
    assert "line 1, entry 1: message 1: it is encrypted" in result.stderr


MEM0 = {
    "results": [
        {
            "id": "m-1",
            "memory": "Likes a window seat",
            "hash": "abc",
            "metadata": {"topic": "seats"},
            "created_at": "2025-10-22T04:40:22.864647-07:00",
            "updated_at": None,
            "user_id": "ada",
            "run_id": "trip",
        },
        {"id": "m-2", "memory": "I said this", "role": "user", "user_id": "ada", "categories": ["x"]},
    ]
}


def test_memories_of_mem0_belong_to_their_users(command: Command, tmp_path: Path, url: str) -> None:
    (tmp_path / "mem0.json").write_text(json.dumps(MEM0))

    for counted in ("2 added", "0 added, 2 unchanged"):
        result = command("import", "mem0.json", "--user", "ada", "--store", url)
        assert result.exit_code == 0, result.stderr
        assert counted in result.stderr
    refused = command("import", "mem0.json", "--user", "bob", "--store", url)

    first, second = stored(url, user_id="ada")
    assert (first.id, first.content, first.metadata.session_id) == ("m-1", "Likes a window seat", "trip")
    assert (first.metadata.extra, first.created_at[:13]) == ({"topic": "seats"}, "2025-10-22T11")
    assert (trust_of(first), trust_of(second)) == (Trust.AGENT, Trust.USER)
    assert refused.exit_code == 2
    assert "belongs to the user 'ada', not to 'bob'" in refused.stderr


def test_the_values_of_a_langgraph_store_keep_their_namespaces(
    command: Command, tmp_path: Path, url: str, database: sqlite3.Connection
) -> None:
    columns = "prefix text, key text, value text, created_at TIMESTAMP, updated_at TIMESTAMP"
    database.execute(f"CREATE TABLE store ({columns}, expires_at TIMESTAMP, ttl_minutes REAL)")
    row = ("users.ada", "seat", '{"text": "likes a window seat"}', "2025-01-01 10:00:00", "2025-01-02 10:00:00")
    database.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?, NULL, NULL)", row)
    database.commit()
    by_hand = {"namespace": ["users", "ada"], "key": "coach", "value": {"kind": "coach", "quiet": True}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(by_hand) + "\n")

    for file in ("other.db", "rows.jsonl", "other.db", "rows.jsonl"):
        result = command("import", file, "--user", "ada", "--store", url)
        assert result.exit_code == 0, result.stderr

    assert "0 added, 1 unchanged" in result.stderr
    seat, coach = stored(url, user_id="ada", namespace=("users", "ada"))
    assert (seat.name, seat.content, seat.metadata.extra) == (
        "seat",
        "likes a window seat",
        {"text": "likes a window seat"},
    )
    assert (seat.created_at[:10], seat.updated_at[:10]) == ("2025-01-01", "2025-01-02")
    assert (coach.name, coach.content) == ("coach", "kind: coach\nquiet: true")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("history (memory_id TEXT, new_memory TEXT)", "does not say whose each memory is"),
        ("checkpoints (thread_id TEXT)", "the state of a graph, not memories"),
        ("anything (id TEXT)", "a database that is not understood"),
    ],
)
def test_other_databases_are_refused_with_advice(
    command: Command, one_url: str, database: sqlite3.Connection, table: str, said: str
) -> None:
    database.execute(f"CREATE TABLE {table}")
    database.commit()

    result = command("import", "other.db", "--store", one_url)

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_dry_run_says_what_becomes_of_every_conversation(command: Command, tmp_path: Path, one_url: str) -> None:
    circle = conversation(node("a", "b"), node("b", "a"), name="circle")
    stranger = conversation(node("a", "root", "robot"), name="stranger")
    twice = conversation(node("a", "root"))
    file = written(tmp_path, [TALK, circle, CALLING | {"conversation_id": "calls"}, stranger, twice])

    result = command("import", file, "--user", "ada", "--dry-run", "--json", "--store", one_url)
    stopped = command("import", file, "--user", "ada", "--store", one_url)

    assert result.exit_code == stopped.exit_code == 2
    assert "line 1, entry 2: its messages form a circle" in stopped.stderr
    lines = json.loads(result.stdout)["entries"]
    assert [(each["session"], each["items"], each["branches"]) for each in lines] == [
        *(("talk", 7, 2), (None, 0, 0), ("calls", 7, 0), (None, 0, 0), (None, 0, 0))
    ]
    assert lines[0]["left_out"] == {"messages without text": 1}
    assert lines[2]["left_out"] == {"parts of the model's reasoning": 1, "messages without text": 1}
    assert lines[1]["refused"] == "its messages form a circle."
    assert "'robot' is not a role of ChatGPT" in lines[3]["refused"]
    assert "the same id as the conversation of entry 1" in lines[4]["refused"]
    assert not (tmp_path / "memories").exists()


def test_a_dry_run_for_people_lists_the_same(command: Command, tmp_path: Path, one_url: str) -> None:
    result = command("import", written(tmp_path, [TALK]), "--dry-run", "--store", one_url)

    assert result.exit_code == 0, result.stderr
    shown = " ".join(result.stdout.split())
    assert "7 items, 2 branches; left out: messages without text (1)" in shown
    assert "Would import conversations.json (chatgpt) as 3 sessions: 9 added" in result.stderr


def test_a_session_may_be_named_for_one_conversation(command: Command, tmp_path: Path, one_url: str) -> None:
    one = command("import", written(tmp_path, [TALK]), "--session", "mine", "--store", one_url)
    several = command(
        "import", written(tmp_path, [TALK, TALK | {"conversation_id": "b"}]), "--session", "mine", "--store", one_url
    )

    assert one.exit_code == 0, one.stderr
    assert len(stored(one_url, session_id="mine")) == 4
    assert several.exit_code == 2
    assert "a second conversation" in several.stderr
