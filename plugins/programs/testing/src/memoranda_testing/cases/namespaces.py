"""Namespaces, and the owners of what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryMetadata
from memoranda.store import Store
from memoranda_testing.case import note
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.expect import raises
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, Program, item, mine, played, refused, theirs

NASTY = [
    *(("a",), ("ab",), ("a", "b"), ("a/b",), ("a", ""), ("a~1b",), ("A",), ("á",), ("a", "b", "c"), ("%",), ("a%",)),
    *(("a_",), ("a*",), ("a?",), ("[a]",), ("a[!x]", "b"), ("*", "b"), ("a\\",), ("a ",), ("users", "Ada L", "日本")),
    *(("a" * 300,), ("a" * 300 + "b",), ("a", "\uffff"), ("a", "\U0001f989"), ("a", "\U0010ffff", "x")),
    *(("a\U0010ffff",), ()),
]
"""Namespaces that are easily taken for one another."""


class NamespaceCases(HistoryCases):
    """Namespaces are a hierarchy."""

    @played
    def test_a_namespace_matches_what_lies_in_it_and_below(self, store: Calls) -> Program:
        """Element by element: ('a',) is no beginning of ('ab',), and letters, slashes and wildcards are themselves."""
        yield store.add_many([item(f"{place!r}"[:99], metadata=mine(namespace=place)) for place in NASTY])
        for place in NASTY:
            yield store.search(metadata=mine(namespace=place), limit=100)
            yield store.count(metadata=mine(namespace=place))
            yield store.search(where={"namespace": list(place)}, limit=100)

    @played
    def test_a_handle_is_bound_to_a_place_and_all_below(self, store: Calls) -> Program:
        """It stamps what has no place, keeps places below its own, and cannot reach beside or above."""
        yield store.add_many([item(f"in {place}", metadata=mine(namespace=("team", place))) for place in ("ab", "")])
        yield store.add(item("above", metadata=mine(namespace=("team",))))
        handle = store.scoped(user_id="ada", namespace=("team", "a"))
        yield handle.add(item("stamped", metadata=MemoryMetadata()))
        places: list[tuple[str, ...]] = [("team", "a", "x"), ("team",), ("team", "b")]
        yield from (handle.add(item(f"{place}", metadata=MemoryMetadata(namespace=place))) for place in places)
        yield from (handle.search(metadata=MemoryMetadata(namespace=place)) for place in places)
        yield from (handle.search(), handle.get("above"), handle.clear())

    async def test_what_is_no_namespace_is_refused(self, store: Store) -> None:
        """A text is not a tuple of its letters, and what no store can hold is named."""
        for bad in ("users", ("a", 1), ("a\0",), ("\ud800",), ("x" * 2000,)):
            with raises(InputError, f"an item in the namespace {bad!r}"):
                await store.add(note("x", MemoryMetadata(user_id=self.user(), namespace=bad)))  # type: ignore[arg-type]  # the mistake under test
        with raises(InputError, "a handle at the root"):
            store.scoped(namespace=())


class OwnerCases(HistoryCases):
    """Owners: which users, sessions and namespaces have items."""

    @played
    def test_owners_are_listed_in_order_with_counts_and_times(self, store: Calls) -> Program:
        """Of each: how many items, archived ones too, not deleted ones, and when the first and last were created."""
        held = {"s2": [3, 1], "s10": [5], "": [2], "S2": [4, 4], "\U0001f375": [7], "\uff54": [6], "é": [8]}
        for session, seconds in held.items():
            place = mine(session_id=session)
            yield store.add_many([item(f"{session}{number}", at, place) for number, at in enumerate(seconds)])
        yield store.add(item("old", 9, mine(session_id="s2"), archived_by="summary"))
        yield store.add_many([item("nobody's", 0), item("gone", 0, mine(session_id="gone")), item("b", 1, theirs())])
        yield store.clear(metadata=mine(session_id="gone"))
        yield from (store.owners(by, within=mine()) for by in ("session_id", "user_id", "task_id"))
        yield from (store.owners(), store.scoped(user_id="ada").owners("session_id"))
        yield store.owners("session_id", within=mine(), limit=2, offset=1)

    @played
    def test_namespaces_are_listed_by_depth_beginning_and_end(self, store: Calls) -> Program:
        """Below a place, cut off at a depth and joined there, or only those with an end; values alone are the same."""
        names = ("a", "b", "ab", "a~", "a/", "a/b", "~1", "é", "\U0001f375", "0")
        places = [(), ("a", "x"), ("a", "x", "p"), *((one,) for one in names)]
        places += [(one, other, "p") for one in names for other in names[:4]]
        yield store.add_many([item(f"{place!r}", metadata=mine(namespace=place)) for place in (*places, ("gone", "p"))])
        yield store.clear(metadata=mine(namespace=("gone",)))
        yield store.add(item("another's", metadata=theirs(namespace=("c", "p"))))
        asked: list[dict[str, Any]] = [
            *({}, {"depth": 1}, {"depth": 2}, {"depth": 9}, {"suffix": ("p",)}, {"suffix": ("p",), "depth": 1}),
            *({"suffix": ("x",), "depth": 3}, {"limit": 3, "offset": 2}, {"limit": 2, "offset": 1, "depth": 1}),
        ]
        for named in asked:
            for place in ((), ("a",), ("a/",), ("nowhere",)):
                for counts in (True, False):
                    yield store.owners("namespace", within=mine(namespace=place), counts=counts, **named)

    @refused
    def test_what_owns_nothing_cannot_be_listed(self, store: Calls) -> Iterator[Call]:
        """Only ids and namespaces own; depth and suffix are for namespaces."""
        yield from (store.owners("content"), store.owners(""), store.owners("user_id", depth=1))
        yield from (store.owners("namespace", depth=0), store.owners("namespace", suffix="p"))
        yield from (store.owners(limit=-1), store.owners(offset=True), store.owners(counts=0))
