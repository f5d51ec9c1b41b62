"""Items as JSON and back, and the one check of what can be stored."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import field_serializer

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus, SystemMemory, ToolMemory
from memoranda.errors import CorruptStoreError, InputError
from memoranda.items import BUILTIN_TYPES, SummaryMemory, now_text
from memoranda.shapes import check_text, checked_json
from memoranda.store import InMemoryStore, copy_item, dump_item, load_item
from memoranda.store.backend import check_item, make_item
from memoranda.store.checks import storable
from memoranda.store.codec import new_item

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
METADATA = st.builds(
    MemoryMetadata, user_id=st.none() | TEXT, session_id=st.none() | TEXT, extra=st.dictionaries(TEXT, JSON, max_size=2)
)


@st.composite
def items(draw: Any) -> MemoryItem:
    """Items of every class, with further fields."""
    fields: dict[str, Any] = {
        "content": draw(TEXT),
        "metadata": draw(METADATA),
        "name": draw(st.none() | TEXT),
        "archived_by": draw(st.none() | TEXT),
        "version": draw(st.integers(0, 5)),
        **draw(st.dictionaries(st.sampled_from(["mood", "x-further", "Ж"]), JSON, max_size=2)),
    }
    kind = draw(st.sampled_from([MemoryItem, SystemMemory, HumanMemory, AIMemory, ToolMemory, SummaryMemory]))
    if kind is MemoryItem:
        fields["memory_type"] = draw(st.sampled_from(["item", "not-installed", ""]))
    if kind is AIMemory:
        fields["tool_calls"] = [{"id": "c", "args": draw(JSON)}]
    if kind is ToolMemory:
        fields |= {"tool_call_id": draw(TEXT), "is_error": draw(st.booleans())}
    return kind(**fields)


@given(items())
def test_a_dumped_item_loads_as_it_was(item: MemoryItem) -> None:
    loaded = load_item(json.loads(json.dumps(dump_item(item))))
    assert type(loaded) is type(item)
    assert loaded == item


@given(items())
def test_a_copy_is_equal_and_shares_nothing(item: MemoryItem) -> None:
    before = dump_item(item)
    copied = copy_item(item)
    assert type(copied) is type(item)
    assert dump_item(copied) == before
    copied.metadata.extra["added"] = 1
    for value in (copied.model_extra or {}).values():
        if isinstance(value, list):
            value.append("added")
    if isinstance(copied, AIMemory):
        copied.tool_calls[0]["added"] = 1
    assert dump_item(item) == before


@given(items())
def test_an_item_made_from_stored_values_is_the_item(item: MemoryItem) -> None:
    stored = dump_item(item)
    names = ("id", "content", "memory_type", "status", "created_at", "updated_at", "version")
    base = {name: stored.pop(name) for name in names} | {"metadata": MemoryMetadata(**stored.pop("metadata"))}
    made = make_item(base, stored)
    assert type(made) is type(item)
    assert dump_item(made) == dump_item(item)


@given(JSON)
def test_a_checked_json_value_is_an_equal_copy(value: Any) -> None:
    assert json.dumps(checked_json(value, "value")) == json.dumps(value)


def test_a_tuple_is_stored_as_a_list() -> None:
    assert checked_json({"k": (1, (2,))}, "value") == {"k": [1, [2]]}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [0, {"b": float("nan")}]}, "extra.a[1].b"),
        ({"a": b"x"}, "extra.a"),
        ({1: "x"}, "extra"),
        ({"a": "\0"}, "extra.a"),
        (["\ud800"], "extra[0]"),
        ({"\0": 1}, "extra key"),
        ({"a": 10**5000}, "extra.a"),
        ({"a": object()}, "extra.a"),
    ],
)
def test_the_path_to_what_json_cannot_hold_is_named(value: Any, path: str) -> None:
    with pytest.raises(InputError) as raised:
        checked_json(value, "extra")
    assert raised.value.field == path
    assert path in str(raised.value)


def test_a_nesting_that_json_readers_refuse_is_refused() -> None:
    value: Any = []
    for _ in range(1000):
        value = [value]
    with pytest.raises(InputError, match="nested"):
        checked_json(value, "extra")


@pytest.mark.parametrize("text", ["a\0b", "é\0", "\ud800", "x\udfffy"])
def test_a_text_that_no_store_can_hold_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError) as raised:
        check_text(text, "content")
    assert raised.value.field == "content"


@pytest.mark.parametrize("text", ["", "\x01\x7f", "🦉", "e\u0301", "\uffff", "\U0010ffff"])
def test_every_other_text_is_taken(text: str) -> None:
    assert check_text(text, "content") == text


REFUSED = ["a\0b", "\ud800", float("nan"), 10**5000, object(), {"k": ["\0"]}, {1: "x"}]


@pytest.mark.parametrize("value", REFUSED, ids=["NUL", "surrogate", "NaN", "huge", "object", "nested NUL", "key"])
def test_what_no_store_can_hold_is_refused_beside_what_it_can(value: Any) -> None:
    """In a namespace, in ``extra`` and in further fields, also where all else is plain."""
    plain = {"place": "Porto", "tags": ["a", {"b": 1}], "done": True, "none": None}
    in_extra = HumanMemory(content="tea", metadata=MemoryMetadata(user_id="ada", extra={**plain, "last": value}))
    further = HumanMemory(content="tea", **plain).model_copy(update={"last": value})
    owner = MemoryMetadata(user_id="ada", namespace=("users", "ada"))
    below = HumanMemory(content="tea", metadata=owner.model_copy(update={"namespace": ("users", value)}))

    for item in (in_extra, further, below):
        with pytest.raises(InputError):
            storable(item)


@pytest.mark.parametrize("place", [("a" * 1_001,), ("~" * 501,), ("",) * 1_001], ids=["text", "escaped", "depth"])
def test_a_namespace_that_is_too_long_for_an_index_is_refused(place: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as raised:
        storable(HumanMemory(content="tea", metadata=MemoryMetadata(namespace=place)))
    assert raised.value.field == "metadata.namespace"


def test_what_is_no_item_cannot_be_stored() -> None:
    with pytest.raises(InputError, match="dict"):
        check_item({"content": "x"})  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [[], None, "x"])
def test_what_is_no_object_is_no_item(data: Any) -> None:
    with pytest.raises(InputError, match="JSON object"):
        load_item(data)


def test_a_bad_field_of_a_loaded_item_is_named() -> None:
    with pytest.raises(InputError) as raised:
        load_item({"content": "x", "created_at": "never"})
    assert raised.value.field == "created_at"


def test_a_type_of_a_plugin_is_read_as_its_class() -> None:
    class Note(MemoryItem):
        memory_type: str = "note"
        stars: int = 0

    stored = dump_item(Note(content="x", stars=3))
    assert isinstance(load_item(stored, {**BUILTIN_TYPES, "note": Note}), Note)
    plain = load_item(stored)
    assert type(plain) is MemoryItem
    assert dump_item(plain) == stored


def test_stored_values_that_are_no_item_are_a_corrupt_store() -> None:
    base = {"id": "x", "content": "", "memory_type": "human", "status": "gone", "metadata": MemoryMetadata()}
    with pytest.raises(CorruptStoreError, match="'x'"):
        make_item(base | {"created_at": "", "updated_at": "", "version": 1}, {})


class Colour(StrEnum):
    """A text with a class of its own."""

    RED = "red"


def test_a_copy_shares_nothing_whatever_its_containers_are() -> None:
    ordered, inner = OrderedDict(a=1), [1]
    extra = {"ordered": ordered, "tuple": (inner,), "enum": Colour.RED}
    item = AIMemory(content="x", metadata=MemoryMetadata(extra=extra), tool_calls=[{"id": "c", "args": (inner,)}])
    copied = copy_item(item)
    ordered["b"] = 2
    inner.append(2)
    assert copied.metadata.extra == {"ordered": {"a": 1}, "tuple": [[1]], "enum": "red"}
    assert type(copied.metadata.extra["enum"]) is str
    assert copied.model_dump()["tool_calls"] == [{"id": "c", "args": [[1]]}]


@pytest.mark.parametrize(
    ("update", "field", "kept"),
    [
        ({"created_at": "2024-01-01T02:00:00+02:00"}, "created_at", "2024-01-01T00:00:00.000000+00:00"),
        ({"updated_at": datetime(2024, 1, 1, tzinfo=UTC)}, "updated_at", "2024-01-01T00:00:00.000000+00:00"),
        ({"status": "discard"}, "status", "discard"),
        ({"metadata": {"user_id": "ada"}}, "metadata", None),
        ({"tool_calls": None}, "tool_calls", []),
    ],
)
async def test_what_passed_pydantic_over_is_validated_by_the_store(
    update: dict[str, Any], field: str, kept: Any
) -> None:
    item = AIMemory(content="x").model_copy(update=update)
    store = InMemoryStore()
    await store.add(item)
    (found,) = await store.search(status=MemoryStatus.DISCARD if field == "status" else None)
    assert getattr(found, field) == (MemoryMetadata(user_id="ada") if field == "metadata" else kept)
    assert dump_item(item) == {**dump_item(found), "version": 0}


@pytest.mark.parametrize(
    ("update", "field"),
    [
        ({"created_at": "soon"}, "created_at"),
        ({"status": "gone"}, "status"),
        ({"version": -1}, "version"),
        ({"version": "x"}, "version"),
        ({"metadata": None}, "metadata"),
        ({"tool_calls": {"name": "no list"}}, "tool_calls"),
        ({"name": 0}, "name"),
        ({"group": []}, "group"),
        ({"ttl": "5"}, "ttl"),
        ({"expires_at": "soon"}, "expires_at"),
        ({"metadata": MemoryMetadata().model_copy(update={"extra": None})}, "metadata.extra"),
        ({"metadata": MemoryMetadata().model_copy(update={"user_id": 7})}, "metadata.user_id"),
    ],
)
async def test_what_cannot_be_an_item_is_refused_by_its_field(update: dict[str, Any], field: str) -> None:
    store = InMemoryStore()
    with pytest.raises(InputError) as refused:
        await store.add(AIMemory(content="x").model_copy(update=update))
    assert (refused.value.field or "").startswith(field)
    assert await store.count() == 0


@given(items(), st.booleans())
def test_a_new_item_is_what_its_class_makes_of_the_fields(item: MemoryItem, dated: bool) -> None:
    usual = ("id", "content", "memory_type", "name", "tool_calls", "tool_call_id", "is_error", "mood")
    fields = {name: value for name in usual if (value := getattr(item, name, None)) is not None}
    fields |= {"created_at": item.created_at} if dated else {}

    made = new_item(dict(fields), item.metadata, now_text())

    expected = type(item)(**fields | {"created_at": made.created_at}, metadata=item.metadata)
    assert type(made) is type(expected)
    assert made == expected
    assert made.created_at == made.updated_at
    assert not dated or made.created_at == item.created_at


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"memory_type": "human"}, "content"),
        ({"memory_type": "human", "content": 5}, "content"),
        ({"memory_type": "human", "content": "", "id": 5}, "id"),
        ({"memory_type": "human", "content": "", "id": ""}, "id"),
        ({"memory_type": "human", "content": "", "name": 5}, "name"),
        ({"memory_type": "human", "content": "", "created_at": "yesterday"}, "created_at"),
        ({"memory_type": "human", "content": "", "user_id": "ada"}, "user_id"),
        ({"memory_type": "ai", "content": "", "tool_calls": [{"name": "look"}]}, "tool_calls"),
        ({"memory_type": "ai", "content": "", "tool_calls": [{"id": ""}]}, "tool_calls"),
        ({"memory_type": "tool", "content": "", "tool_call_id": None}, "tool_call_id"),
    ],
)
def test_a_new_item_of_wrong_fields_is_refused_as_by_its_class(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as raised:
        new_item(fields, MemoryMetadata(), now_text())
    assert raised.value.field == field


class Kept(MemoryItem):
    """An item with a field that may hold anything, one that is made into text, and one of bytes."""

    memory_type: str = "kept"
    anything: Any = None
    secret: Any = None
    raw: bytes = b""

    @field_serializer("secret")
    def _as_text(self, value: Any) -> str:
        return repr(value)


@pytest.mark.parametrize(
    "value", [b"x", b"\xff", {1, 2}, {"a": b"x"}, {1: 2}, datetime(2026, 1, 1, tzinfo=UTC), object()]
)
async def test_a_field_for_anything_takes_what_json_gives_back_and_nothing_else(value: Any) -> None:
    with pytest.raises(InputError, match=r"^anything") as refused:
        await InMemoryStore().add(Kept(content="", anything=value))
    assert str(refused.value.field).startswith("anything")
    check_item(Kept(content="", anything={"a": [1, 2.5, None, "x"]}))


def test_a_field_that_is_written_in_a_way_of_its_own_is_not_looked_into() -> None:
    assert dump_item(Kept(content="", secret={1}))["secret"] == "{1}"
    assert dump_item(Kept(content="", raw=b"x"))["raw"] == "x"


def test_what_pydantic_cannot_write_is_named() -> None:
    with pytest.raises(InputError, match="raw has a value that cannot be written as JSON"):
        check_item(Kept(content="", raw=b"\xff"))
