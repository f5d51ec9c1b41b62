"""Namespaces, and the owners of what is stored."""

from __future__ import annotations

from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Owner, Store
from memoranda_testing.case import Cases, moment, note
from memoranda_testing.expect import contents, each_raises, equal, raises, same_item

NASTY = [
    *(("a",), ("ab",), ("a", "b"), ("a/b",), ("a", ""), ("a~1b",), ("A",), ("á",), ("a", "b", "c"), ("%",), ("a%",)),
    *(("a_",), ("a*",), ("a?",), ("[a]",), ("a[!x]", "b"), ("*", "b"), ("a\\",), ("a ",)),
    *(
        ("a" * 300,),
        ("a" * 300 + "b",),
        ("a", "\uffff"),
        ("a", "\U0001f989"),
        ("a", "\U0010ffff", "x"),
        ("a\U0010ffff",),
    ),
]
"""Namespaces that are easily taken for one another."""


class NamespaceCases(Cases):
    """Namespaces are a hierarchy."""

    def place(self, scope: MemoryMetadata, *namespace: str) -> MemoryMetadata:
        """Return the scope with a namespace."""
        return MemoryMetadata(user_id=scope.user_id, namespace=namespace)

    async def test_a_namespace_comes_back_as_it_was(self, store: Store) -> None:
        """Every element is any text; the root is the empty tuple."""
        scope = self.scope()
        for namespace in [(), *NASTY, ("users", "Ada Lovelace", "日本")]:
            item = note("x", self.place(scope, *namespace))
            await store.add(item)
            same_item(await store.get(item.id), item, f"the item in {namespace!r}")

    async def test_a_namespace_matches_what_lies_in_it_and_below(self, store: Store) -> None:
        """Element by element: ('a',) is no beginning of ('ab',), and letters, slashes and wildcards are themselves."""
        scope = self.scope()
        places = [(), *NASTY]
        await store.add_many([note(repr(namespace), self.place(scope, *namespace)) for namespace in places])
        for asked in places:
            wanted = [repr(found) for found in places if found[: len(asked)] == asked]
            found = contents(await store.search(metadata=self.place(scope, *asked), limit=100))
            equal(sorted(found), sorted(wanted), f"what lies below {asked!r}")
            equal(await store.count(metadata=self.place(scope, *asked)), len(wanted), f"count below {asked!r}")
            exact = await store.search(metadata=scope, where={"namespace": list(asked)}, limit=100)
            equal(contents(exact), [repr(asked)], f"what lies in {asked!r} alone")

    async def test_a_handle_is_bound_to_a_place_and_all_below(self, store: Store) -> None:
        """It stamps what has no place, keeps places below its own, and cannot reach beside or above."""
        scope = self.scope()
        user = str(scope.user_id)
        handle = store.scoped(user_id=user, namespace=("team", "a"))
        await store.add(note("beside", self.place(scope, "team", "ab")))
        above = note("above", self.place(scope, "team"))
        await store.add(above)
        await handle.add(MemoryItem(content="stamped"))
        await handle.add(MemoryItem(content="below", metadata=MemoryMetadata(namespace=("team", "a", "x"))))
        equal(sorted(contents(await handle.search())), ["below", "stamped"], "what the handle sees")
        equal(await handle.get(above.id), None, "get from above")
        below = await handle.search(metadata=MemoryMetadata(namespace=("team", "a", "x")))
        equal(contents(below), ["below"], "a filter below the handle's place")
        equal(len(await handle.search(metadata=MemoryMetadata(namespace=("team",)))), 2, "a filter above is narrowed")
        await each_raises(
            InputError,
            "outside the handle's place",
            add=handle.add(MemoryItem(content="x", metadata=MemoryMetadata(namespace=("team", "b")))),
            search=handle.search(metadata=MemoryMetadata(namespace=("team", "b"))),
        )
        equal(await handle.clear(), 2, "number cleared")
        equal(sorted(contents(await store.search(metadata=scope))), ["above", "beside"], "what is left")

    async def test_what_is_no_namespace_is_refused(self, store: Store) -> None:
        """A text is not a tuple of its letters, and what no store can hold is named."""
        for bad in ("users", ("a", 1), ("a\0",), ("\ud800",), ("x" * 2000,)):
            with raises(InputError, f"an item in the namespace {bad!r}"):
                await store.add(note("x", MemoryMetadata(user_id=self.user(), namespace=bad)))  # type: ignore[arg-type]  # the mistake under test
        with raises(InputError, "a handle at the root"):
            store.scoped(namespace=())


class OwnerCases(Cases):
    """Owners: which users, sessions and namespaces have items."""

    async def test_owners_are_listed_in_order_with_counts_and_times(self, store: Store) -> None:
        """Of each: how many items, archived ones too, and when the first and the last were created."""
        user = self.user()
        within = MemoryMetadata(user_id=user)
        held = {"s2": [3, 1], "s10": [5], "": [2], "S2": [4, 4], "\U0001f375": [7], "\uff54": [6], "é": [8]}
        for session, seconds in held.items():
            for second in seconds:
                await store.add(note("x", MemoryMetadata(user_id=user, session_id=session), second))
        await store.add(note("old", MemoryMetadata(user_id=user, session_id="s2"), 9, archived_by="summary"))
        await store.add(note("nobody's", within, 0))
        wanted = [
            Owner("", 1, moment(2), moment(2)),
            Owner("S2", 2, moment(4), moment(4)),
            Owner("s10", 1, moment(5), moment(5)),
            Owner("s2", 3, moment(1), moment(9)),
            Owner("é", 1, moment(8), moment(8)),
            Owner("\uff54", 1, moment(6), moment(6)),
            Owner("\U0001f375", 1, moment(7), moment(7)),
        ]
        equal([owner async for owner in store.owners("session_id", within=within)], wanted, "sessions")
        users = [owner async for owner in store.owners(within=within)]
        equal(users, [Owner(user, 11, moment(0), moment(9))], "users")
        handle = store.scoped(user_id=user)
        equal([owner async for owner in handle.owners("session_id")], wanted, "sessions of a handle")
        paged = [owner async for owner in store.owners("session_id", within=within, limit=2, offset=1)]
        equal(paged, wanted[1:3], "a page of sessions")

    async def test_who_has_nothing_left_is_not_listed(self, store: Store) -> None:
        """Deleted items have no owner."""
        scope = self.scope(session_id="s")
        await store.add(note("x", scope))
        await store.clear(metadata=scope)
        found = [owner async for owner in store.owners("session_id", within=MemoryMetadata(user_id=scope.user_id))]
        equal(found, [], "sessions after clearing")

    async def test_namespaces_are_listed_by_depth_beginning_and_end(self, store: Store) -> None:
        """Below a place, cut off at a depth and joined there, or only those with an end."""
        user = self.user()
        places = [("a",), ("a", "x"), ("a", "x", "p"), ("a", "y", "p"), ("ab",), ("b", "p"), ()]
        for place in places:
            await store.add(note("x", MemoryMetadata(user_id=user, namespace=place)))

        async def listed(*place: str, **asked: Any) -> list[Any]:
            within = MemoryMetadata(user_id=user, namespace=place)
            return [(owner.value, owner.count) async for owner in store.owners("namespace", within=within, **asked)]

        everything = [(place, 1) for place in places[:-1]]
        equal(await listed(), everything, "all namespaces")
        equal(await listed("a"), everything[:4], "those below a place")
        equal(await listed(depth=1), [(("a",), 4), (("ab",), 1), (("b",), 1)], "cut off at one element")
        equal(await listed("a", depth=2), [(("a",), 1), (("a", "x"), 2), (("a", "y"), 1)], "cut off at two")
        equal(
            await listed(suffix=("p",)), [(("a", "x", "p"), 1), (("a", "y", "p"), 1), (("b", "p"), 1)], "by their end"
        )
        equal(await listed(suffix=("p",), depth=1), [(("a",), 2), (("b",), 1)], "by their end, cut off at one")
        equal(await listed(suffix=("x",), depth=3), [(("a", "x"), 1)], "by another end")

    async def test_owners_that_nobody_counts_are_the_same(self, store: Store) -> None:
        """Without counts the values are the same, whatever is asked, and nothing else is returned."""
        user = self.user()
        names = ("a", "b", "a~", "a/", "a/b", "~1", "é", "\U0001f375", "0")
        places = [(one,) for one in names] + [(one, other, "p") for one in names for other in names[:4]]
        await store.add_many([note("x", MemoryMetadata(user_id=user, namespace=place)) for place in places])
        await store.add(note("gone", MemoryMetadata(user_id=user, namespace=("gone", "p"))))
        await store.clear(metadata=MemoryMetadata(user_id=user, namespace=("gone",)))
        await store.add(note("another's", MemoryMetadata(user_id=self.user(), namespace=("c", "p"))))
        asked: list[dict[str, Any]] = [
            *({}, {"depth": 1}, {"depth": 2}, {"depth": 9}, {"suffix": ("p",)}, {"suffix": ("p",), "depth": 1}),
            *({"limit": 3, "offset": 2}, {"limit": 2, "offset": 1, "depth": 1}),
        ]
        for named in asked:
            for place in ((), ("a",), ("a/",), ("nowhere",)):
                within = MemoryMetadata(user_id=user, namespace=place)
                counted = [owner.value async for owner in store.owners("namespace", within=within, **named)]
                found = [owner async for owner in store.owners("namespace", within=within, counts=False, **named)]
                equal(found, [Owner(value, 0, "", "") for value in counted], f"below {place!r} with {named!r}")

    async def test_what_owns_nothing_cannot_be_listed(self, store: Store) -> None:
        """Only ids and namespaces own; depth and suffix are for namespaces."""
        asked: list[dict[str, Any]] = [
            *({"by": "content"}, {"by": ""}, {"by": "user_id", "depth": 1}, {"by": "namespace", "depth": 0}),
            *({"by": "namespace", "suffix": "p"}, {"limit": -1}, {"offset": True}, {"counts": 0}),
        ]
        for named in asked:
            with raises(InputError, f"owners({named!r})"):
                async for _ in store.owners(**named):
                    pass
