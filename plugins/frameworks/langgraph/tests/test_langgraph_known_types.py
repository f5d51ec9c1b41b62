"""Reading a checkpoint runs no code but that of known types, whoever wrote what is stored."""

from __future__ import annotations

import dataclasses
import enum
import json
import pickle
import re
import subprocess
import sys
import uuid
from collections import deque
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict
from zoneinfo import ZoneInfo

import numpy as np
import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Overwrite, Send, interrupt
from pydantic import BaseModel
from pydantic.v1 import BaseModel as FirstBaseModel

import memoranda
from memoranda.errors import CorruptStoreError, InputError
from memoranda.store import InMemoryStore, Store
from memoranda.store.records import copying_records
from memoranda_langgraph import CheckpointSerializer, MemorandaSaver, RefusedTypeError

THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@dataclasses.dataclass
class Plan:
    """A type of a program's own."""

    steps: list[str]


class Mood(enum.Enum):
    """Another one."""

    GLAD = "glad"


class Profile(BaseModel):
    """Another one."""

    name: str


class FirstProfile(FirstBaseModel):
    """Another one."""

    name: str


class Point(NamedTuple):
    """Another one."""

    x: int


class Forged:
    """A serializer that writes what somebody prepared in the place of every value."""

    def __init__(self, kind: str, data: bytes) -> None:
        self._typed = kind, data

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self._typed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        raise NotImplementedError


def extension(code: int, *parts: Any) -> Any:
    """Return what the serializer makes an object of: a module, a name in it, and what to call it with."""
    return ormsgpack.Ext(code, ormsgpack.packb(parts, option=ormsgpack.OPT_NON_STR_KEYS))


SINGLE, POSITIONAL, NAMED, METHOD, FIRST_MODEL, MODEL, ARRAY, SNAPSHOT = range(8)


def calls(mark: str) -> dict[str, Any]:
    """Return a value for each way to have something called; each would leave a mark."""
    leave = f"open({mark!r}, 'w')"
    arguments = {"args": [sys.executable, "-c", leave]}
    single = extension(SINGLE, "builtins", "exec", leave)
    return {
        "constructor with one argument": single,
        "constructor with arguments": extension(POSITIONAL, "builtins", "open", [mark, "w"]),
        "constructor with names": extension(NAMED, "subprocess", "call", arguments),
        "method": extension(METHOD, "builtins", "__builtins__", leave, "exec"),
        "method of a safe type": extension(METHOD, "pathlib", "Path", mark, "touch"),
        "first model": extension(FIRST_MODEL, "subprocess", "call", arguments),
        "model": extension(MODEL, "subprocess", "call", arguments, "model_validate_json"),
        "method through a model": extension(MODEL, "os", "system", {"command": f"touch {mark}"}, "__call__"),
        "import alone": extension(SINGLE, "prepared", "missing", 1),
        "import through a package": extension(POSITIONAL, "prepared", "Anything", []),
        "in a list": [1, {"deep": [single]}],
        "as an argument of a safe type": extension(SINGLE, "builtins", "set", [single]),
        "in a message": extension(MODEL, "langchain_core.messages.human", "HumanMessage", {"content": single}, ""),
        "in a message to be sent": extension(POSITIONAL, "langgraph.types", "Send", ["node", single]),
        "in a snapshot": ormsgpack.Ext(SNAPSHOT, ormsgpack.packb(single)),
        "in an array": extension(ARRAY, single, [1], "C", b"\0"),
        "in its own module": extension(SINGLE, single, single, single),
    }


def refused_kinds(mark: str) -> dict[str, tuple[str, bytes]]:
    """Return values of other kinds than those that are written."""
    leave = f"open({mark!r}, 'w')"
    constructor = {"lc": 2, "type": "constructor", "id": ["builtins", "exec"], "args": [leave]}
    prompt = {"lc": 1, "type": "constructor", "id": ["langchain", "prompts", "prompt", "PromptTemplate"], "kwargs": {}}
    return {
        "json": ("json", json.dumps(constructor).encode()),
        "json with a method": ("json", json.dumps({**constructor, "method": "__call__"}).encode()),
        "json with a safe type": ("json", json.dumps({**constructor, "id": ["builtins", "set"]}).encode()),
        "json of langchain": ("json", json.dumps(prompt).encode()),
        "pickle": ("pickle", pickle.dumps(Marking(mark))),
        "unknown": ("yaml", b"a: 1"),
    }


class Marking:
    """What leaves a mark when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return open, (self._mark, "w")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What must not be there in the end; the module ``prepared`` leaves it, too, when it is imported."""
    left = tmp_path / "mark"
    (tmp_path / "prepared.py").write_text(f"open({str(left)!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield left
    assert not left.exists()
    assert "prepared" not in sys.modules


async def refusing_reads(saver: MemorandaSaver, config: Any) -> None:
    """Read what is stored in every way, and see each of them refuse it."""
    with pytest.raises((RefusedTypeError, CorruptStoreError)):
        await saver.aget_tuple(config)
    with pytest.raises((RefusedTypeError, CorruptStoreError)):
        [_ async for _ in saver.alist(None)]
    with pytest.raises((RefusedTypeError, CorruptStoreError)):
        await saver.aget_delta_channel_history(config=config, channels=["a"])


@pytest.mark.parametrize("way", list(calls("")))
@pytest.mark.parametrize("part", ["checkpoint", "write"])
async def test_nothing_that_is_stored_chooses_what_is_called(way: str, part: str, mark: Path) -> None:
    store = InMemoryStore()
    saver = MemorandaSaver(store)
    config = await saver.aput(THREAD, empty_checkpoint(), {"step": 0}, {})
    forged = Forged("msgpack", ormsgpack.packb(calls(str(mark))[way], option=ormsgpack.OPT_NON_STR_KEYS))
    forger = MemorandaSaver(store, serde=forged)
    if part == "checkpoint":
        config = await forger.aput(config, empty_checkpoint(), {"step": 1}, {})
        with pytest.raises((RefusedTypeError, CorruptStoreError)):
            await saver.aprune(["t"])
    else:
        await forger.aput_writes(config, [("a", 1)], "task")

    await refusing_reads(saver, config)


@pytest.mark.parametrize("kind", list(refused_kinds("")))
async def test_kinds_that_are_never_written_are_refused(kind: str, mark: Path) -> None:
    store = InMemoryStore()
    forger = MemorandaSaver(store, serde=Forged(*refused_kinds(str(mark))[kind]))
    config = await forger.aput(THREAD, empty_checkpoint(), {"step": 1}, {})

    await refusing_reads(MemorandaSaver(store), config)


async def test_what_was_imported_chooses_nothing_either(store: Store, mark: Path) -> None:
    async with memoranda.open("memory://") as prepared:
        forged = Forged("msgpack", ormsgpack.packb(calls(str(mark))["model"]))
        config = await MemorandaSaver(prepared).aput(THREAD, empty_checkpoint(), {"step": 1}, {})
        await MemorandaSaver(prepared, serde=forged).aput(THREAD, {**empty_checkpoint(), "id": "f"}, {"step": 2}, {})
        with copying_records(store):
            await store.add_many([item async for item in prepared.scan()])
    saver = MemorandaSaver(store)

    assert await saver.aget_tuple(config) is not None
    with pytest.raises(RefusedTypeError, match=r"subprocess\.call"):
        await saver.aget_tuple({"configurable": {**THREAD["configurable"], "checkpoint_id": "f"}})
    await saver.adelete_thread("t")
    assert [found async for found in saver.alist(None)] == []


@pytest.mark.parametrize("environment", [{}, {"LANGGRAPH_STRICT_MSGPACK": "false"}])
def test_the_environment_opens_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    """LangGraph's own switch decides about its own savers."""
    program = f"""
import ormsgpack
from memoranda_langgraph import CheckpointSerializer, RefusedTypeError
data = ormsgpack.packb(("builtins", "open", ("mark", "w")))
try:
    CheckpointSerializer().loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext({POSITIONAL}, data))))
except RefusedTypeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert "builtins.open" in done.stdout
    assert list(tmp_path.iterdir()) == []


KNOWN: dict[str, Any] = {
    "messages": [
        SystemMessage("be brief"),
        HumanMessage("hello", id="1"),
        AIMessage("", tool_calls=[{"id": "c", "name": "look", "args": {"at": 1}}]),
        ToolMessage("seen", tool_call_id="c", artifact={"n": 1}),
    ],
    "removal": RemoveMessage("1"),
    "document": Document("text", metadata={"n": 1}),
    "send": [Send("node", {"a": 1})],
    "interrupt": (Interrupt("well?", id="i"),),
    "command": Command(resume={"a": 1}, goto=[Send("node", 1)]),
    "overwrite": Overwrite([1]),
    "times": [
        datetime.now(UTC),
        datetime.now(UTC).replace(tzinfo=None),
        date(2024, 1, 1),
        time(1, 2),
        timedelta(days=1),
        UTC,
    ],
    "zone": ZoneInfo("Europe/Berlin"),
    "numbers": [1, 2**63, 1.5, Decimal("1.10")],
    "uuid": uuid.uuid4(),
    "collections": [{1, 2}, frozenset({3}), deque([4])],
    "addresses": [ip_address("10.0.0.1"), ip_network("fd00::/8")],
    "path": Path("/tmp/a"),
    "pattern": re.compile("a+", re.IGNORECASE),
    "bytes": [b"\0\xff", bytearray(b"x")],
    "none": None,
}


@pytest.mark.parametrize("name", list(KNOWN))
async def test_known_types_come_back_as_they_were(name: str) -> None:
    saver = MemorandaSaver(InMemoryStore())
    config = await saver.aput(THREAD, {**empty_checkpoint(), "channel_values": {"a": KNOWN[name]}}, {}, {})
    await saver.aput_writes(config, [("a", KNOWN[name])], "task")

    found = await saver.aget_tuple(config)

    assert found is not None
    assert repr(found.checkpoint["channel_values"]["a"]) == repr(like_packed(KNOWN[name]))
    assert found.pending_writes is not None
    assert repr(found.pending_writes[0][2]) == repr(like_packed(KNOWN[name]))


def like_packed(value: Any) -> Any:
    """Return a value as the format keeps it, which has lists and bytes alone."""
    if isinstance(value, tuple | list):
        return [like_packed(inner) for inner in value]
    return bytes(value) if isinstance(value, bytearray) else value


async def test_arrays_come_back_as_they_were() -> None:
    saver = MemorandaSaver(InMemoryStore())
    made = np.arange(6, dtype="f4").reshape(2, 3)
    config = await saver.aput(THREAD, {**empty_checkpoint(), "channel_values": {"a": made}}, {}, {})

    found = await saver.aget_tuple(config)

    assert found is not None
    assert np.array_equal(found.checkpoint["channel_values"]["a"], made)


OWN = [Plan(["a"]), Mood.GLAD, Profile(name="Ada"), FirstProfile(name="Ada"), Point(1)]


@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
async def test_a_type_of_ones_own_is_read_once_it_is_allowed(value: Any) -> None:
    store = InMemoryStore()
    closed = MemorandaSaver(store)
    config = await closed.aput(THREAD, {**empty_checkpoint(), "channel_values": {"a": [value]}}, {}, {})

    with pytest.raises(RefusedTypeError, match=rf"{__name__}\.{type(value).__name__}.*allowed_types") as caught:
        await closed.aget_tuple(config)

    assert caught.value.types == (f"{__name__}.{type(value).__name__}",)
    for allowed in (type(value), (__name__, type(value).__name__)):
        found = await MemorandaSaver(store, allowed_types=[allowed]).aget_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"]["a"] == [value]


async def test_a_refusal_says_where_and_names_every_type_but_no_content() -> None:
    saver = MemorandaSaver(InMemoryStore())
    values = {"a": Plan(["secret"]), "b": [Mood.GLAD, Plan(["secret"])]}
    config = await saver.aput(THREAD, {**empty_checkpoint(), "channel_values": values}, {}, {})

    with pytest.raises(RefusedTypeError) as caught:
        await saver.aget_tuple(config)

    assert f"{__name__}.Plan" in str(caught.value)
    assert f"{__name__}.Mood" in str(caught.value)
    assert "'langgraph:t'" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_name_of_any_length_is_cut_off_in_a_refusal() -> None:
    store = InMemoryStore()
    names = [extension(SINGLE, "m" * 10_000, f"n{number}", 1) for number in range(50)]
    forger = MemorandaSaver(store, serde=Forged("msgpack", ormsgpack.packb(names)))
    config = await forger.aput(THREAD, empty_checkpoint(), {}, {})

    with pytest.raises(RefusedTypeError) as caught:
        await MemorandaSaver(store).aget_tuple(config)

    assert len(str(caught.value)) < 1000


async def test_bytes_that_are_no_checkpoint_are_reported_as_such() -> None:
    store = InMemoryStore()
    for data in (b"", b"\xc1", b"\x93\x01", ormsgpack.packb("text"), ormsgpack.packb(None), b"\x91" * 100_000):
        forger = MemorandaSaver(store, serde=Forged("msgpack", data))
        config = await forger.aput(THREAD, empty_checkpoint(), {}, {})
        with pytest.raises(CorruptStoreError):
            await MemorandaSaver(store).aget_tuple(config)


@pytest.mark.parametrize("wrong", [True, "app.Plan", ["app.Plan"], [("app",)], [("app", 1)], [Plan(["a"])], [True]])
def test_what_is_no_type_cannot_be_allowed(wrong: Any) -> None:
    with pytest.raises(InputError, match="allowed_types"):
        MemorandaSaver(InMemoryStore(), allowed_types=wrong)


def test_a_class_that_reading_would_not_find_cannot_be_allowed() -> None:
    class Inner:
        pass

    with pytest.raises(InputError, match="top of its module"):
        MemorandaSaver(InMemoryStore(), allowed_types=[Inner])


def test_types_are_allowed_with_our_serializer_alone() -> None:
    with pytest.raises(InputError, match="allowed_types"):
        MemorandaSaver(InMemoryStore(), serde=JsonPlusSerializer(), allowed_types=[Plan])


async def test_a_serializer_of_ones_own_does_as_it_likes() -> None:
    store = InMemoryStore()
    config = await MemorandaSaver(store).aput(
        THREAD, {**empty_checkpoint(), "channel_values": {"a": Plan(["x"])}}, {}, {}
    )
    plain = MemorandaSaver(store, serde=JsonPlusSerializer(allowed_msgpack_modules=None))

    found = await plain.aget_tuple(config)

    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": {"steps": ["x"]}}


class Backwards:
    """A cipher for tests."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "backwards", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


async def test_our_serializer_can_be_encrypted() -> None:
    store = InMemoryStore()
    saver = MemorandaSaver(store, serde=EncryptedSerializer(Backwards(), CheckpointSerializer([Plan])))
    config = await saver.aput(THREAD, {**empty_checkpoint(), "channel_values": {"a": Plan(["x"])}}, {}, {})

    found = await saver.aget_tuple(config)

    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": Plan(["x"])}
    narrower = EncryptedSerializer(Backwards(), CheckpointSerializer())
    with pytest.raises(RefusedTypeError):
        await MemorandaSaver(store, serde=narrower).aget_tuple(config)


async def test_what_langgraph_allows_for_a_graph_is_allowed_there_alone() -> None:
    store = InMemoryStore()
    saver = MemorandaSaver(store)
    config = await saver.aput(THREAD, {**empty_checkpoint(), "channel_values": {"a": Plan(["x"])}}, {}, {})

    found = await saver.with_allowlist([(__name__, "Plan")]).aget_tuple(config)

    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": Plan(["x"])}
    with pytest.raises(RefusedTypeError):
        await saver.aget_tuple(config)


def _joined(left: list[Any], right: list[Any]) -> list[Any]:
    return left + right


class State(TypedDict):
    """What the graph below knows."""

    plan: Plan
    mood: Mood
    messages: Annotated[list[Any], _joined]


def _think(state: State) -> Any:
    return {"plan": Plan([*state["plan"].steps, "think"]), "messages": [AIMessage("hm")]}


def _ask(state: State) -> Any:
    return {"mood": Mood(interrupt("how are you?")), "messages": [HumanMessage("fine")]}


async def test_a_graph_with_types_of_its_own_goes_on_where_it_stopped(store: Store) -> None:
    builder = StateGraph(State)
    builder.add_node("think", _think)
    builder.add_node("ask", _ask)
    builder.add_edge(START, "think")
    builder.add_edge("think", "ask")
    thread: Any = {"configurable": {"thread_id": "t"}}

    def graph() -> Any:
        return builder.compile(checkpointer=MemorandaSaver(store, allowed_types=[Plan, Mood]))

    await graph().ainvoke({"plan": Plan(["wake"]), "messages": []}, thread)
    done = await graph().ainvoke(Command(resume="glad"), thread)

    assert (done["plan"], done["mood"]) == (Plan(["wake", "think"]), Mood.GLAD)
    assert [message.content for message in done["messages"]] == ["hm", "fine"]
    assert (await graph().aget_state(thread)).values == done
    with pytest.raises(RefusedTypeError, match="Plan"):
        await builder.compile(checkpointer=MemorandaSaver(store)).aget_state(thread)
