"""A row is read as the item that it was made from, and also as other programs may have written it."""

from __future__ import annotations

import json
from collections import UserDict
from enum import IntEnum, StrEnum
from functools import reduce
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.errors import CorruptStoreError
from memoranda.store.backend import check_item, further_values
from memoranda_backend.sql import pack, unpack, unpack_readable

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)
TEXTS = st.sampled_from(["", "a", '"extra":', 'x"extra', "{}}", "\\", '","extra":{}}', "é"]) | NAMES
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.just("extra"), inner, max_size=3),
    max_leaves=5,
)
METADATA = st.fixed_dictionaries(
    {
        "user_id": st.none() | TEXTS,
        "session_id": st.none() | TEXTS,
        "namespace": st.lists(TEXTS, max_size=3),
        "extra": st.dictionaries(TEXTS | st.just("extra"), JSON, max_size=3),
    }
)


def read(metadata: str) -> MemoryMetadata:
    """Return the metadata of a row that has this text as its own."""
    row = pack(HumanMemory(content="x"))
    return unpack([*row[:4], metadata, *row[5:8], 1]).metadata


def test_metadata_may_leave_out_what_it_has_not() -> None:
    assert read('{"user_id":"ada","session_id":"s"}') == MemoryMetadata(user_id="ada", session_id="s")
    assert read('{"user_id":"ada","extra" :{"k":[1]}}') == MemoryMetadata(user_id="ada", extra={"k": [1]})


@given(fields=METADATA, name=st.none() | TEXTS)
def test_a_row_is_read_as_the_item_that_it_was_made_from(fields: dict[str, Any], name: str | None) -> None:
    item = MemoryItem(content="x", memory_type="langgraph.item", name=name, metadata=MemoryMetadata(**fields))
    row = pack(item)

    found = unpack([*row, item.version])

    assert found == item
    assert list(found.metadata.__dict__) == list(item.metadata.__dict__)


@given(
    fields=METADATA, order=st.permutations(["user_id", "session_id", "namespace", "extra", "further"]), data=st.data()
)
def test_metadata_is_read_in_whatever_way_it_is_written(
    fields: dict[str, Any], order: list[str], data: st.DataObject
) -> None:
    further = data.draw(TEXTS.filter(lambda key: key not in MemoryMetadata.model_fields))
    held = {further if key == "further" else key: fields.get(key, {"extra": {}}) for key in order}
    indent, separators = data.draw(st.sampled_from([(None, (",", ":")), (None, (", ", ": ")), (1, (",", ": "))]))
    text = json.dumps(held, indent=indent, separators=separators, ensure_ascii=data.draw(st.booleans()))

    assert read(text) == MemoryMetadata(**fields)


def test_items_of_one_place_share_nothing_that_can_be_changed() -> None:
    text = '{"user_id":"ada","session_id":null,"task_id":null,"agent_id":null,"namespace":["a"],"extra":{}}'
    read(text).extra["k"] = 1

    assert read(text).extra == {}


def test_items_of_equal_rows_share_nothing_that_can_be_changed() -> None:
    row = (*pack(AIMemory(content="Tea.")), 1)
    first, second = unpack(row), unpack(row)
    assert isinstance(first, AIMemory)
    assert isinstance(second, AIMemory)
    first.tool_calls.append({"id": "call_1"})
    first.name = "ada"
    setattr(first, "further", 1)  # noqa: B010 - a field that the class does not know

    assert (second.tool_calls, second.name, second.model_extra, second.model_fields_set) == ([], None, {}, set())
    assert unpack(row) == second


def test_neighbours_of_one_owner_share_nothing_that_can_be_changed() -> None:
    ada, bob = MemoryMetadata(user_id="ada"), MemoryMetadata(user_id="bob", extra={"k": 1})
    given = [HumanMemory(content="Tea.", metadata=owner) for owner in (ada, ada, bob, bob, ada)]
    items = unpack_readable([(*pack(item), 1) for item in given])
    items[0].metadata.extra["k"] = 2
    items[2].metadata.extra["k"] = 2

    assert [item.metadata.user_id for item in items] == ["ada", "ada", "bob", "bob", "ada"]
    assert [item.metadata.extra for item in items] == [{"k": 2}, {}, {"k": 2}, {"k": 1}, {}]


def test_an_unreadable_row_is_left_out_and_its_neighbours_are_read() -> None:
    rows = [[*pack(HumanMemory(id=name, content="Tea.")), 1] for name in ("a", "b", "c")]
    rows[1][4] = ""

    assert [item.id for item in unpack_readable(rows)] == ["a", "c"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '{"extra":[1]}', '{"extra":{}}}', '{"extra":{}},', '{"user_id":1,"extra":{}}'),
        *(
            '{"namespace":[1],"extra":{"k":1}}',
            '{"extra":{"k":1}',
            '{"extra":{"k":1}x',
            '{"session_id":[],"extra":{"k":1}}',
        ),
    ],
)
def test_metadata_that_cannot_be_read_is_a_corrupt_store(text: str) -> None:
    with pytest.raises(CorruptStoreError):
        read(text)


class Word(StrEnum):
    LONG = "long € word"


class Number(IntEnum):
    SEVEN = 7


class Whispered(str):
    def __str__(self) -> str:
        return "another text"


@given(value=JSON)
def test_a_field_is_written_as_the_json_that_was_checked(value: Any) -> None:
    item = MemoryItem(content="x", field=value)
    assert json.loads(pack(item).extra_json) == further_values(item)


@pytest.mark.parametrize(
    "value",
    [
        Word.LONG,
        Number.SEVEN,
        Whispered("quiet"),
        {Word.LONG: (1, (2.0, None))},
        MappingProxyType({"a": [1]}),
        UserDict({"a": {"b": 1}}),
        reduce(lambda inner, _: [inner], range(190), []),
        10**4000,
        5e-324,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_field_of_a_type_of_its_own_is_written_as_plain_json(value: Any) -> None:
    item = MemoryItem(content="x", field=value)
    check_item(item)
    assert json.loads(pack(item).extra_json) == further_values(item)
