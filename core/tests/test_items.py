"""What a memory is: fields, times, lifecycle and types."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus, SystemMemory, ToolMemory
from memoranda.errors import InputError, MemoryError
from memoranda.items import SummaryMemory, utc_text


def test_an_item_has_its_documented_defaults() -> None:
    item = MemoryItem(content="hello")
    assert (item.status, item.version, item.name, item.archived_by) == (MemoryStatus.ACCEPTED, 0, None, None)
    assert item.metadata == MemoryMetadata()
    assert item.updated_at == item.created_at
    assert (UUID(item.id).version, UUID(item.id).hex) == (4, item.id)


def test_the_text_of_an_item_leaves_out_what_every_new_one_has() -> None:
    item = AIMemory(id="a", content="hi", created_at="2026-01-01", metadata=MemoryMetadata(user_id="ada"), mood=None)
    time = "'2026-01-01T00:00:00.000000+00:00'"
    assert repr(item) == (
        "AIMemory(id='a', content='hi', metadata=MemoryMetadata(user_id='ada'), "
        f"created_at={time}, updated_at={time}, mood=None)"
    )


def test_the_text_of_an_item_shows_all_that_is_not_usual() -> None:
    metadata = MemoryMetadata(namespace=("users", "ada"), extra={"k": 0})
    item = ToolMemory(content="", is_error=True, status="draft", version=3, metadata=metadata)
    for told in (
        "content=''",
        "is_error=True",
        "status=<MemoryStatus.DRAFT: 'draft'>",
        "version=3",
        "namespace=('users', 'ada')",
        "extra={'k': 0}",
    ):
        assert told in repr(item)


def test_every_item_has_an_id_of_its_own() -> None:
    assert len({MemoryItem(content="").id for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SystemMemory, "system"),
        (HumanMemory, "human"),
        (AIMemory, "ai"),
        (ToolMemory, "tool"),
        (SummaryMemory, "summary"),
    ],
)
def test_every_class_has_its_type(kind: type[MemoryItem], name: str) -> None:
    assert kind(content="x").memory_type == name


def test_lists_and_dicts_are_not_shared_between_items() -> None:
    first, second = AIMemory(content=""), AIMemory(content="")
    first.tool_calls.append({"id": "c"})
    first.metadata.extra["k"] = 1
    assert second.tool_calls == []
    assert second.metadata.extra == {}


def test_unknown_fields_are_kept() -> None:
    item = MemoryItem.model_validate({"content": "x", "mood": {"joy": 1}})
    assert item.model_dump()["mood"] == {"joy": 1}


@pytest.mark.parametrize(
    ("given_time", "kept"),
    [
        ("2024-03-01T12:00:00Z", "2024-03-01T12:00:00.000000+00:00"),
        ("2024-03-01T12:00:00+02:00", "2024-03-01T10:00:00.000000+00:00"),
        ("2024-03-01T12:00:00", "2024-03-01T12:00:00.000000+00:00"),
        ("2024-03-01", "2024-03-01T00:00:00.000000+00:00"),
        ("2024-W09-5T12:00:00.000000+00:00", "2024-03-01T12:00:00.000000+00:00"),
        ("20240301T120000Z", "2024-03-01T12:00:00.000000+00:00"),
        (" 2024-03-01T12:00:00.5Z ", "2024-03-01T12:00:00.500000+00:00"),
        (datetime(2024, 3, 1, 12, tzinfo=timezone(timedelta(hours=5))), "2024-03-01T07:00:00.000000+00:00"),
        (datetime(2024, 3, 1, 12), "2024-03-01T12:00:00.000000+00:00"),  # noqa: DTZ001  # naive means UTC
    ],
)
def test_times_are_brought_to_utc(given_time: str | datetime, kept: str) -> None:
    item = MemoryItem(content="x", created_at=given_time)  # type: ignore[arg-type]
    assert item.created_at == kept


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "",
        "2024-13-01",
        "2024-02-30T00:00:00",
        "12:00",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+01:00",
        "2024-03-01T12:00:00.000000+00:0x",
        1709294400,
        None,
    ],
)
@pytest.mark.parametrize("field", ["created_at", "updated_at"])
def test_an_unreadable_time_is_refused_by_the_name_of_its_field(field: str, text: str) -> None:
    with pytest.raises(ValueError, match=field) as raised:
        MemoryItem(**{"content": "x", field: text})
    assert isinstance(raised.value, MemoryError)


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)), st.integers(-14 * 60, 14 * 60))
def test_the_order_of_times_is_the_order_of_their_texts(first: datetime, second: datetime, offset: int) -> None:
    try:
        moved = second.astimezone(timezone(timedelta(minutes=offset)))
    except OverflowError:
        moved = second
    assert (utc_text(first) < utc_text(moved)) == (first < second)
    assert datetime.fromisoformat(utc_text(moved)) == second


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_in_the_stored_form_stays_as_it_is(moment: datetime) -> None:
    text = utc_text(moment)
    assert utc_text(text) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [("draft", "accepted"), ("draft", "discard"), ("accepted", "discard")],
)
def test_a_status_moves_forward(before: str, after: str) -> None:
    item = MemoryItem(content="x", status=MemoryStatus(before), created_at="2020-01-01", updated_at="2020-01-01")
    assert item.transition(after) is item
    assert item.status is MemoryStatus(after)
    assert item.updated_at > item.created_at


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("accepted", "draft"),
        ("discard", "accepted"),
        ("discard", "draft"),
        ("draft", "draft"),
        ("accepted", "accepted"),
        ("discard", "discard"),
        ("draft", "done"),
    ],
)
def test_a_status_moves_nowhere_else(before: str, after: str) -> None:
    item = MemoryItem(content="x", status=MemoryStatus(before))
    touched = item.updated_at
    with pytest.raises(InputError) as raised:
        item.transition(after)
    assert raised.value.field == "status"
    assert (item.status, item.updated_at) == (MemoryStatus(before), touched)


def test_metadata_is_frozen() -> None:
    metadata = MemoryMetadata(user_id="u")
    with pytest.raises(ValueError, match="frozen"):
        metadata.user_id = "v"


def test_metadata_refuses_fields_that_do_not_exist() -> None:
    with pytest.raises(InputError, match="userid"):
        MemoryMetadata(userid="u")  # type: ignore[call-arg]


def test_metadata_can_be_a_key() -> None:
    first, second = MemoryMetadata(user_id="u", extra={"k": [1]}), MemoryMetadata(user_id="u", extra={"k": [1]})
    assert {first: 1}[second] == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("content", None), ("id", ""), ("version", -1), ("status", "done"), ("memory_type", 3), ("metadata", "u")],
)
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    with pytest.raises(InputError) as raised:
        MemoryItem(**{"content": "x", field: value})  # type: ignore[arg-type]
    assert raised.value.field == field
    assert field in str(raised.value)


def test_a_wrong_field_is_named_on_assignment() -> None:
    item = MemoryItem(content="x")
    with pytest.raises(InputError) as raised:
        item.version = -1
    assert raised.value.field == "version"
    assert item.version == 0


def test_an_error_about_a_field_does_not_repeat_its_value() -> None:
    with pytest.raises(InputError) as raised:
        MemoryItem(content="x", created_at="my secret")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("calls", [[{}], [{"id": ""}], [{"id": 3}], ["c"], [{"id": "a"}, {"name": "no id"}]])
def test_a_tool_call_needs_an_id(calls: list[object]) -> None:
    with pytest.raises(InputError, match="tool_calls"):
        AIMemory(content="", tool_calls=calls)  # type: ignore[arg-type]


def test_no_tool_calls_may_be_none() -> None:
    assert AIMemory(content="", tool_calls=None).tool_calls == []  # type: ignore[arg-type]


def test_calls_without_an_id_are_refused_in_any_iterable() -> None:
    for calls in (deque([{"name": "search"}]), ({"name": name} for name in ["search"]), ({"name": "search"},)):
        with pytest.raises(InputError, match="tool call 0"):
            AIMemory(content="", tool_calls=calls)  # type: ignore[arg-type]  # pydantic takes any iterable for a list


def test_midnight_has_one_text() -> None:
    try:
        text = utc_text("2024-01-01T24:00:00.000000+00:00")
    except ValueError:
        return  # Python knows no hour 24 before 3.14.
    assert text == "2024-01-02T00:00:00.000000+00:00"


def test_a_zone_without_an_offset_means_utc() -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, moment: datetime | None) -> None:
            return None

    assert utc_text(datetime(2024, 1, 1, tzinfo=Nowhere())) == "2024-01-01T00:00:00.000000+00:00"
