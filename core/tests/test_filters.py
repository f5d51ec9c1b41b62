"""What a filter matches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.errors import InputError
from memoranda.store import EVERYTHING
from memoranda.store.backend import (
    Condition,
    Filter,
    Page,
    check_clearing,
    extra_matches,
    fold,
    json_equal,
    merge_scope,
    metadata_matches,
    names_nothing,
)
from memoranda.store.values import Value, value_conditions

VALUES: list[Any] = [True, False, 1, 1.0, 0, -0.0, "1", "", None, [], {}, [1], [True], {"x": 1}, {"x": True}]


def same_json(left: Any, right: Any) -> bool:
    """The oracle: compare canonical forms in which booleans, numbers and texts cannot meet."""

    def canonical(value: Any) -> Any:
        if isinstance(value, bool):
            return ("bool", value)
        if isinstance(value, (int, float)):
            return ("number", value)
        if isinstance(value, list):
            return ("list", [canonical(inner) for inner in value])
        if isinstance(value, dict):
            return ("object", {key: canonical(inner) for key, inner in value.items()})
        return ("other", value)

    return bool(canonical(left) == canonical(right))


@pytest.mark.parametrize("left", VALUES)
@pytest.mark.parametrize("right", VALUES)
def test_json_values_compare_as_json(left: Any, right: Any) -> None:
    assert json_equal(left, right) is same_json(left, right)


@given(st.sampled_from(VALUES), st.lists(st.sampled_from(VALUES), max_size=4))
def test_a_value_is_among_others_that_are_the_same_json(found: Any, wanted: list[Any]) -> None:
    item = MemoryItem(content="x", metadata=MemoryMetadata(extra={"key": found}))

    (condition,) = value_conditions({"key": {"$in": wanted}})

    assert condition.matches(item) is any(same_json(found, value) for value in wanted)


def test_objects_compare_regardless_of_key_order() -> None:
    assert json_equal({"a": 1, "b": [1, 2]}, {"b": [1.0, 2], "a": 1.0})
    assert not json_equal({"a": 1}, {"a": 1, "b": 2})
    assert not json_equal([1, 2], [2, 1])


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(VALUES)), st.data())
def test_extra_matches_every_subset_of_itself(extra: dict[str, Any], data: st.DataObject) -> None:
    keys = data.draw(st.sets(st.sampled_from(sorted(extra)))) if extra else set()
    assert extra_matches({key: extra[key] for key in keys}, extra)
    assert not extra_matches({"not there": None}, extra)


@pytest.mark.parametrize("name", ["user_id", "session_id", "task_id", "agent_id"])
def test_none_is_any_and_the_empty_text_is_itself(name: str) -> None:
    def metadata(value: str | None) -> MemoryMetadata:
        return MemoryMetadata(**{name: value})

    assert metadata_matches(None, metadata("x"))
    for found in (None, "", "x"):
        assert metadata_matches(metadata(None), metadata(found))
        assert metadata_matches(metadata(""), metadata(found)) is (found == "")
        assert metadata_matches(metadata("x"), metadata(found)) is (found == "x")


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_a_query_matches_exactly_the_contents_that_contain_it(before: str, query: str, after: str) -> None:
    assert fold(query) in fold(before) + fold(query) + fold(after)
    wanted = Filter(query=query)
    content = before + query + after
    assert wanted.matches(
        MemoryItem.model_construct(
            content=content, metadata=MemoryMetadata(), memory_type="x", status=MemoryStatus.DRAFT, archived_by=None
        )
    ) is (query.casefold() in content.casefold())


@pytest.mark.parametrize(
    ("query", "content", "found"),
    [
        ("STRASSE", "Straße", True),
        ("жираф", "ЖИРАФ", True),
        ("i", "İ", True),
        ("%", "100%", True),
        ("%", "100", False),
        ("_", "ab", False),
        ("", "", True),
        ("é", "e\u0301", False),
    ],
)
def test_a_query_is_literal_and_folds_unicode(query: str, content: str, found: bool) -> None:
    assert Filter.of(query=query).matches(MemoryItem(content=content)) is found


def test_archived_items_match_only_when_asked_for() -> None:
    shown, archived = MemoryItem(content="x"), MemoryItem(content="x", archived_by="")
    for wanted, matches in ((False, (True, False)), (True, (False, True)), (None, (True, True))):
        assert tuple(Filter.of(archived=wanted).matches(item) for item in (shown, archived)) == matches


def test_every_condition_must_hold() -> None:
    item = MemoryItem(content="tea", memory_type="note", metadata=MemoryMetadata(user_id="u"))
    passing: dict[str, Any] = {
        "query": "TE",
        "memory_type": "note",
        "status": "accepted",
        "metadata": MemoryMetadata(user_id="u"),
    }
    failing = {"query": "x", "memory_type": "", "status": "draft", "metadata": MemoryMetadata(user_id="")}
    assert Filter.of(**passing).matches(item)
    for name, value in failing.items():
        assert not Filter.of(**{**passing, name: value}).matches(item)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"query": "\0"}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"memory_type": "\0"}, "memory_type"),
        ({"status": "done"}, "status"),
        ({"metadata": {"user_id": "u"}}, "metadata"),
        ({"metadata": MemoryMetadata(user_id="\0")}, "metadata.user_id"),
        ({"metadata": MemoryMetadata(extra={"k": float("inf")})}, "metadata.extra.k"),
        ({"query": 3}, "query"),
    ],
)
def test_a_filter_that_nothing_can_match_is_refused_by_name(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as raised:
        Filter.of(**arguments)
    assert raised.value.field == field


@pytest.mark.parametrize("limit", [-1, -(10**30), 1.0, "1", None, True])
def test_a_bad_limit_is_refused(limit: Any) -> None:
    with pytest.raises(InputError) as raised:
        Page.checked(limit, 0, "created")
    assert raised.value.field == "limit"


@pytest.mark.parametrize("limit", [0, 1, 10**40])
def test_a_limit_is_any_whole_number_from_nought(limit: int) -> None:
    assert Page.checked(limit, 0, "created").limit == min(limit, EVERYTHING)


def test_an_empty_filter_does_not_clear() -> None:
    check_clearing(None)
    check_clearing(MemoryMetadata(user_id=""))
    check_clearing(MemoryMetadata(extra={"k": None}))
    with pytest.raises(InputError, match="everything"):
        check_clearing(MemoryMetadata())
    assert names_nothing(MemoryMetadata())
    assert not names_nothing(MemoryMetadata(agent_id=""))


def test_a_scope_is_added_to_a_filter() -> None:
    scope = MemoryMetadata(user_id="u", extra={"k": 1})
    merged = merge_scope(MemoryMetadata(session_id="s", extra={"l": 2}), scope)
    assert merged == MemoryMetadata(user_id="u", session_id="s", extra={"k": 1, "l": 2})
    assert merge_scope(None, scope) is scope
    assert merge_scope(scope, None) is scope
    assert merge_scope(None, None) is None


@pytest.mark.parametrize(
    "asked",
    [MemoryMetadata(user_id="v"), MemoryMetadata(user_id=""), MemoryMetadata(extra={"k": True})],
)
def test_a_filter_that_contradicts_the_scope_is_refused(asked: MemoryMetadata) -> None:
    with pytest.raises(InputError):
        merge_scope(asked, MemoryMetadata(user_id="u", extra={"k": 1}))


@given(
    st.builds(MemoryMetadata, user_id=st.sampled_from([None, "", "u"]), session_id=st.sampled_from([None, "", "s"])),
    st.builds(MemoryMetadata, user_id=st.sampled_from([None, "", "u"]), session_id=st.sampled_from([None, "", "s"])),
    st.builds(MemoryMetadata, user_id=st.sampled_from([None, "", "u"]), session_id=st.sampled_from([None, "", "s"])),
)
def test_a_narrowed_filter_never_matches_more(
    asked: MemoryMetadata, scope: MemoryMetadata, found: MemoryMetadata
) -> None:
    item = MemoryItem(content="x", metadata=found)
    try:
        narrowed = Filter.of(metadata=asked).narrowed(scope)
    except InputError:
        return
    assert narrowed.matches(item) is (metadata_matches(asked, found) and metadata_matches(scope, found))


@dataclass(frozen=True, slots=True)
class Shouted(Condition):
    """A kind that there is nowhere else; its value is part of its shape."""

    loud: bool

    def matches(self, item: MemoryItem) -> bool:
        return item.content.isupper() is self.loud


@dataclass(frozen=True, slots=True)
class ShoutedWithin(Shouted):
    bounds_scope = True


def test_every_condition_counts_for_a_match() -> None:
    wanted = replace(Filter.of(memory_type="item"), further=(Shouted(True),))
    assert wanted.matches(MemoryItem(content="TEA"))
    assert not wanted.matches(MemoryItem(content="tea"))
    assert not wanted.matches(HumanMemory(content="TEA"))


def test_a_scope_keeps_what_bounds_it_and_nothing_else() -> None:
    metadata = MemoryMetadata(user_id="ada", extra={"k": 1})
    wanted = replace(
        Filter.of(query="x", metadata=metadata, memory_type="ai", status="draft", archived=True),
        further=(Shouted(True), ShoutedWithin(False)),
    )
    assert wanted.scope() == Filter(metadata=metadata, archived=True, further=(ShoutedWithin(False),))
    assert all(condition.bounds_scope for condition in wanted.scope().conditions)


def test_narrowing_keeps_every_condition() -> None:
    wanted = replace(Filter.of(query="x", memory_type="ai"), further=(Shouted(True),))
    narrowed = wanted.narrowed(MemoryMetadata(user_id="ada"))
    assert all(condition in narrowed.conditions for condition in wanted.conditions)
    assert len(narrowed.conditions) == len(wanted.conditions) + 1


def test_the_shape_of_conditions_leaves_out_what_statements_bind() -> None:
    def shape(*further: Condition, **named: Any) -> tuple[object, ...]:
        return tuple(condition.shape for condition in replace(Filter.of(**named), further=further).conditions)

    assert shape(memory_type="a", status="draft", query="x") == shape(memory_type="b", status="discard", query="y")
    assert shape(metadata=MemoryMetadata(user_id="a")) == shape(metadata=MemoryMetadata(user_id="b"))
    assert shape(metadata=MemoryMetadata(user_id="a")) != shape(metadata=MemoryMetadata(agent_id="a"))
    assert shape(memory_type="a") != shape(status="draft")
    assert shape(archived=True) != shape(archived=False) != shape(archived=None)
    assert shape(Shouted(True)) != shape(Shouted(False)) != shape(ShoutedWithin(False))


_COMPARED = st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["human", "ai", "s", "", "1"])
_ASKED = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), _COMPARED),
    st.tuples(st.just("$in"), st.lists(_COMPARED, min_size=1, max_size=3)),
)


@given(st.sampled_from(["memory_type", "session_id", "name", "content", "tool_name", "extra.a"]), _ASKED, _COMPARED)
def test_a_filter_finds_what_each_of_its_conditions_matches(name: str, asked: tuple[str, Any], held: Any) -> None:
    condition = Value(name.removeprefix("extra."), name.startswith("extra."), *asked)
    session = held if isinstance(held, str) and held else None
    metadata = MemoryMetadata(session_id=session, extra={"a": held})
    text = str(held)

    for item in (HumanMemory(content=text, name=text or None, metadata=metadata), MemoryItem(content="s")):
        assert Filter(further=(condition,)).matches(item) is condition.matches(item)
