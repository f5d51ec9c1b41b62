"""``memoranda import`` of chat files: each message arrives as what it is, or nothing of the file does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoranda import MemoryItem, MemoryMetadata
from memoranda.sync import open as open_store
from memoranda_messages import to_anthropic, to_openai

Command = Callable[..., Any]

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":2}'}}
OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "2 + 2?", "name": "Ada"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": "Four."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "And this?"}, {"type": "image_url", "image_url": {"url": "u"}}],
    },
]
OLD_CALL = [
    {"role": "user", "content": "2 + 2?"},
    {"role": "assistant", "content": None, "function_call": {"name": "add", "arguments": "{}"}},
    {"role": "function", "name": "add", "content": "4"},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "2 + 2?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Add.", "signature": "s"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2}},
            {"type": "tool_use", "id": "t2", "name": "add", "input": {"a": 3}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "4"},
            {"type": "tool_result", "tool_use_id": "t2", "content": "5", "is_error": True},
            {"type": "text", "text": "And now?"},
        ],
    },
    {"role": "assistant", "content": "Four."},
]
SHAREGPT = [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "2 + 2?"},
    {"from": "function_call", "value": '{"name": "add", "arguments": {"a": 2}}'},
    {"from": "observation", "value": "4"},
    {"from": "gpt", "value": "Four."},
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"shelf:///{tmp_path / 'memories'}"


def lines(*values: Any) -> str:
    return "\n".join(map(json.dumps, values)) + "\n"


def imported(command: Command, tmp_path: Path, url: str, text: str, *arguments: str) -> Any:
    (tmp_path / "chat").write_text(text)
    return command("import", "chat", "--store", url, *arguments)


def stored(url: str, **owner: str) -> list[MemoryItem]:
    with open_store(url) as store:
        return list(store.scan(metadata=MemoryMetadata(**owner) if owner else None))


def sessions(url: str) -> list[str]:
    return list(dict.fromkeys(str(item.metadata.session_id) for item in stored(url)))


@pytest.mark.parametrize(
    "text",
    [
        lines(*OPENAI),
        "\n\n" + "\n\n".join(map(json.dumps, OPENAI)),
        json.dumps(OPENAI),
        json.dumps(OPENAI, indent=2),
        json.dumps({"messages": OPENAI}),
        json.dumps({"model": "gpt", "tools": [], "messages": OPENAI}, indent=2),
        "\ufeff" + lines({"messages": OPENAI}),
    ],
)
def test_openai_messages_come_back_as_they_were(command: Command, tmp_path: Path, url: str, text: str) -> None:
    result = imported(command, tmp_path, url, text, "--user", "ada", "--session", "trip")

    assert result.exit_code == 0, result.stderr
    assert "(openai) as session trip: 6 added" in result.stderr
    items = stored(url, user_id="ada", session_id="trip")
    assert [item.memory_type for item in items] == ["system", "human", "ai", "tool", "ai", "human"]
    assert to_openai(items) == OPENAI


def test_calls_of_the_old_form_come_back_as_they_were(command: Command, tmp_path: Path, url: str) -> None:
    assert imported(command, tmp_path, url, lines(*OLD_CALL)).exit_code == 0

    assert to_openai(stored(url)) == OLD_CALL


@pytest.mark.parametrize(
    "text", [json.dumps({"model": "c", "system": "Be kind.", "messages": ANTHROPIC}), lines(*ANTHROPIC)]
)
def test_anthropic_messages_come_back_as_they_were(command: Command, tmp_path: Path, url: str, text: str) -> None:
    result = imported(command, tmp_path, url, text, "--user", "ada")

    assert result.exit_code == 0, result.stderr
    assert "(anthropic) as session" in result.stderr
    system, messages = to_anthropic(stored(url, user_id="ada"))
    assert messages == ANTHROPIC
    assert system == ([{"type": "text", "text": "Be kind."}] if "Be kind." in text else [])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"id": "x", "conversations": SHAREGPT}]),
        lines({"conversations": SHAREGPT}),
        lines({"system": "Be brief.", "conversations": SHAREGPT[1:]}),
        lines(*SHAREGPT),
        lines(
            *SHAREGPT[:2],
            {"from": "gpt", "value": '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'},
            {"from": "tool", "value": "<tool_response>\n4\n</tool_response>"},
            SHAREGPT[-1],
        ),
    ],
)
def test_sharegpt_turns_are_messages_with_their_calls(command: Command, tmp_path: Path, url: str, text: str) -> None:
    result = imported(command, tmp_path, url, text)

    assert result.exit_code == 0, result.stderr
    called = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":2}'}}
    assert to_openai(stored(url)) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "content": "4", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "Four."},
    ]


def test_several_sharegpt_calls_are_answered_in_their_order(command: Command, tmp_path: Path, url: str) -> None:
    calls = json.dumps([{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}])
    turns = [
        {"from": "human", "value": "both"},
        {"from": "function_call", "value": calls},
        {"from": "observation", "value": "from f"},
        {"from": "observation", "value": "from g"},
    ]

    assert imported(command, tmp_path, url, lines({"conversations": turns})).exit_code == 0

    assert [item.tool_name for item in stored(url) if item.memory_type == "tool"] == ["f", "g"]  # type: ignore[attr-defined]  # a tool's


def test_each_conversation_of_a_file_has_a_session_of_its_own(command: Command, tmp_path: Path, url: str) -> None:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    text = lines({"messages": said}, {"messages": said}, {"messages": said[:1]})

    first = imported(command, tmp_path, url, text, "--user", "ada")
    again = imported(command, tmp_path, url, text, "--user", "ada")

    assert "as 3 sessions: 5 added" in first.stderr
    assert "0 added, 5 unchanged" in again.stderr
    assert len(sessions(url)) == 3
    assert [len(stored(url, user_id="ada", session_id=session)) for session in sessions(url)] == [2, 2, 1]


def test_a_conversation_that_has_grown_goes_on(command: Command, tmp_path: Path, url: str) -> None:
    imported(command, tmp_path, url, lines(*OPENAI[:2]), "--session", "trip")

    result = imported(command, tmp_path, url, lines(*OPENAI), "--session", "trip")

    assert "4 added, 2 unchanged" in result.stderr
    assert to_openai(stored(url)) == OPENAI


def test_another_conversation_under_the_same_name_is_a_conflict(command: Command, tmp_path: Path, url: str) -> None:
    imported(command, tmp_path, url, lines({"id": "1", "messages": OPENAI}))
    before = stored(url)

    result = imported(command, tmp_path, url, lines({"id": "1", "messages": OPENAI[1:]}))

    assert result.exit_code == 4
    assert stored(url) == before


def test_two_users_have_the_same_file_each_for_themselves(command: Command, tmp_path: Path, url: str) -> None:
    for user in ("ada", "bob"):
        assert imported(command, tmp_path, url, lines(*OPENAI), "--user", user).exit_code == 0
        assert to_openai(stored(url, user_id=user)) == OPENAI

    assert len(sessions(url)) == 2


def test_times_and_ids_of_messages_are_the_items_own(command: Command, tmp_path: Path, url: str) -> None:
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one", "timestamp": "2024-05-01T12:00:00+02:00", "id": "m1"},
        {"role": "assistant", "content": "two", "created": 1714557660},
        {"role": "user", "content": "three"},
        {"role": "assistant", "content": "four", "create_time": 1714557720000.0},
        {"role": "user", "content": "five", "created_at": "2024-05-01T09:00:00Z"},
    ]

    result = imported(command, tmp_path, url, lines(*said))

    assert result.exit_code == 0, result.stderr
    items = stored(url)
    assert [item.created_at[11:19] for item in items] == [
        *("10:00:00", "10:00:00", "10:01:00", "10:01:00", "10:02:00", "10:02:00")
    ]
    assert getattr(items[1], "message_id", None) == "m1"
    assert to_openai(items) == [{"role": each["role"], "content": each["content"]} for each in said]
    assert "0 added, 6 unchanged" in imported(command, tmp_path, url, lines(*said)).stderr


@pytest.mark.parametrize(
    "at", [{"timestamp": "soon"}, {"created": True}, {"created": 1e300}, {"created": 1, "timestamp": 2}]
)
def test_a_time_that_cannot_be_read_is_refused(command: Command, tmp_path: Path, url: str, at: dict[str, Any]) -> None:
    result = imported(
        command, tmp_path, url, lines({"role": "user", "content": "a"}, {"role": "user", "content": "b"} | at)
    )

    assert result.exit_code == 2
    assert "line 2: " in result.stderr
    assert "time" in result.stderr


HELLO = {"role": "user", "content": "Hi"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (lines({"content": "x"}), [], "line 1 is not a message"),
        (lines({"content": "x"}), ["--format", "memoranda"], "line 1: a memory needs a memory_type"),
        (lines(HELLO, {"content": "x"}), [], "line 2 is not a message"),
        (lines(HELLO, {"role": "bot", "content": "x"}), [], "line 2 fits no format. As openai: 'bot' is not a known"),
        (
            lines(HELLO, HELLO | {"session_id": "s"}),
            [],
            "line 2 fits no format. As openai or anthropic: 'session_id' is not",
        ),
        (lines(HELLO, {"role": "user", "text": "x"}), [], "'text' is not a known key of a message"),
        (lines(HELLO, {"role": "user"}), [], "line 2 fits no format. As openai or anthropic: the message says nothing"),
        (lines(HELLO, {"role": "user", "content": [{"type": "hologram"}]}), [], "'hologram' is not a known type"),
        (lines(HELLO, {"role": "user", "content": 7}), [], "line 2: content: "),
        (lines(HELLO, "[1]"), [], "line 2"),
        (lines(HELLO) + "{\n", [], "line 2: this is not JSON"),
        ("[\n" + json.dumps(HELLO) + ",\n{\n]", [], "line 4: this is not JSON"),
        (json.dumps([HELLO, {"role": "bot"}], indent=1), [], "line 6 fits no format"),
        (lines(OPENAI[2], USE), [], "line 2 is in the format anthropic, but line 1 is in openai"),
        (lines(OPENAI[2], USE), ["--format", "openai"], "line 2 is not in the format openai: 'tool_use' is not"),
        (lines(HELLO, OPENAI[2]), ["--format", "anthropic"], "line 2 is not in the format anthropic"),
        (lines(HELLO), ["--format", "sharegpt"], "line 1 is not in the format sharegpt: a message needs 'from'"),
        (lines(HELLO), ["--format", "memoranda"], "line 1: a memory needs a memory_type"),
        (lines(HELLO | {"memory_type": "human"}), [], "line 1: 'role' is not a field"),
        (
            lines({"content": "x", "memory_type": "assistant"}),
            [],
            "line 1: 'assistant' is a role. The memory_type is 'ai'",
        ),
        (lines({"content": "x", "memory_type": "human", "colour": 1}), [], "line 1: 'colour' is not a field"),
        (lines({"content": "x", "memory_type": "human"}, HELLO), [], "line 2 is in the format openai or anthropic"),
        (lines({"messages": [HELLO]}, HELLO), [], "line 2: there are messages and whole conversations"),
        (lines({"messages": [HELLO], "chosen": "x"}), [], "'chosen' is not a known key beside the messages"),
        (lines({"messages": []}), [], "line 1 may be in the format openai or sharegpt"),
        (lines({"messages": {}}), [], "'messages' is not a list of messages"),
        (lines({"id": "x", "messages": [HELLO]}, {"id": "x", "messages": [HELLO]}), [], "line 2 has the same id as"),
        (lines({"messages": [HELLO]}, {"messages": [HELLO]}), ["--session", "s"], "line 2 is a second conversation"),
        (lines({"messages": [HELLO], "user": "bob"}), ["--user", "ada"], "line 1 names the user 'bob'"),
        (lines({"messages": [HELLO], "session_id": "t"}), ["--session", "s"], "line 1 names the session 't'"),
        (lines(HELLO, OPENAI[2] | {"tool_calls": [{"type": "function"}]}), [], "line 2: tool_calls[0].id"),
        (lines({"conversations": [{"from": "observation", "value": "4"}]}), [], "there is no call before it"),
        (lines({"conversations": [{"from": "function_call", "value": "f()"}]}), [], "a call is JSON"),
        (lines({"conversations": [{"from": "martian", "value": "f()"}]}), [], "'martian' is not a known 'from'"),
        (lines({"conversations": SHAREGPT, "images": ["a.png"]}), [], "'images' is not a known key"),
        (lines({"mapping": {}, "title": "Trip"}), [], "line 1, entry 1: the conversation has no id"),
    ],
)
def test_what_is_not_understood_is_named_by_its_line_and_nothing_is_stored(
    command: Command, tmp_path: Path, url: str, text: str, arguments: list[str], said: str
) -> None:
    result = imported(command, tmp_path, url, text, *arguments)

    assert said in result.stderr
    assert result.exit_code == 2
    assert not (tmp_path / "memories").exists()


def test_an_import_for_a_user_refuses_what_is_somebody_elses(command: Command, tmp_path: Path, url: str) -> None:
    source = f"shelf:///{tmp_path / 'source'}"
    command("add", "nobody's", "--id", "one", "--store", source)
    command("add", "bob's", "--user", "bob", "--store", source)
    command("export", "all.jsonl", "--store", source)

    refused = command("import", "all.jsonl", "--user", "ada", "--store", url)
    taken = command("import", "all.jsonl", "--user", "bob", "--session", "s", "--store", url)

    assert refused.exit_code == 2
    assert "line 3 belongs to the user 'bob', not to 'ada'" in refused.stderr
    assert taken.exit_code == 0, taken.stderr
    assert len(stored(url, user_id="bob", session_id="s")) == 2


def test_a_field_of_ones_own_in_an_export_is_kept_without_its_header(
    command: Command, tmp_path: Path, url: str
) -> None:
    source = f"shelf:///{tmp_path / 'source'}"
    command("add", "odd", "--type", "odd", "--field", "role=red", "--store", source)
    command("export", "all.jsonl", "--store", source)
    bare = (tmp_path / "all.jsonl").read_text().split("\n")[1]

    assert imported(command, tmp_path, url, bare).exit_code == 0

    assert stored(url) == stored(source)


def text_of(**options: Any) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12, **options)


NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)


@st.composite
def openai_conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 6))):
        role = draw(st.sampled_from(["system", "developer", "user", "assistant", "calls"]))
        if role == "calls":
            calls = [
                {"id": f"c{number}_{each}", "type": "function", "function": {"name": draw(NAMES), "arguments": "{}"}}
                for each in range(draw(st.integers(1, 3)))
            ]
            content = draw(st.one_of(st.none(), text_of(min_size=1)))
            messages.append({"role": "assistant", "content": content, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": draw(text_of())} for call in calls]
        else:
            parts = st.lists(
                st.fixed_dictionaries({"type": st.just("text"), "text": text_of()}), min_size=1, max_size=2
            )
            messages.append({"role": role, "content": draw(text_of() | parts)})
            if role == "user" and draw(st.booleans()):
                messages[-1]["name"] = draw(NAMES)
    return messages


@st.composite
def anthropic_conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    spoken = text_of(min_size=1).filter(str.strip)
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(spoken)}]
    for number in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            uses = [
                {"type": "tool_use", "id": f"t{number}_{each}", "name": draw(NAMES), "input": {}}
                for each in range(draw(st.integers(1, 3)))
            ]
            results = [{"type": "tool_result", "tool_use_id": use["id"], "content": draw(text_of())} for use in uses]
            said = [{"type": "text", "text": draw(spoken)}] if draw(st.booleans()) else []
            messages += [
                {"role": "assistant", "content": [*said, *uses]},
                {"role": "user", "content": [*results, *said]},
            ]
        messages += [{"role": "assistant", "content": draw(spoken)}, {"role": "user", "content": draw(spoken)}]
    return messages


@settings(
    max_examples=settings.default.max_examples // 3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(messages=openai_conversations(), indent=st.sampled_from([None, 1]), held=st.booleans())
def test_whatever_an_openai_conversation_says_it_comes_back(
    command: Command, tmp_path: Path, messages: list[dict[str, Any]], indent: int | None, held: bool
) -> None:
    url = f"shelf:///{tmp_path / uuid.uuid4().hex}"
    text = json.dumps({"messages": messages} if held else messages, indent=indent)

    for _ in range(2):
        result = imported(command, tmp_path, url, text, "--user", "ada")
        assert result.exit_code == 0, result.stderr

    assert to_openai(stored(url)) == messages


@settings(
    max_examples=settings.default.max_examples // 3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(messages=anthropic_conversations(), system=text_of().filter(lambda text: not text or text.strip()))
def test_whatever_an_anthropic_conversation_says_it_comes_back(
    command: Command, tmp_path: Path, messages: list[dict[str, Any]], system: str
) -> None:
    url = f"shelf:///{tmp_path / uuid.uuid4().hex}"
    text = json.dumps({"system": system, "messages": messages})

    for _ in range(2):
        result = imported(command, tmp_path, url, text, "--user", "ada")
        assert result.exit_code == 0, result.stderr

    assert to_anthropic(stored(url)) == ([{"type": "text", "text": system}] if system else [], messages)


@settings(
    max_examples=settings.default.max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    values=st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["role", "content", "messages", "from", "value", "memory_type", "id", "conversations"]
                    ),
                    inner | st.sampled_from(["user", "assistant", "human", "ai", "tool", "function_call"]),
                    max_size=4,
                )
            ),
            max_leaves=8,
        ),
        max_size=3,
    )
)
def test_whatever_a_file_holds_it_is_imported_or_refused_in_a_sentence(
    command: Command, tmp_path: Path, values: list[Any]
) -> None:
    url = f"shelf:///{tmp_path / uuid.uuid4().hex}"

    result = imported(command, tmp_path, url, lines(*values))

    assert result.exit_code in (0, 2), result.stderr
    assert "Traceback" not in result.stderr
    if result.exit_code == 2:
        assert "line " in result.stderr
        assert not Path(url.removeprefix("shelf:///")).exists()
