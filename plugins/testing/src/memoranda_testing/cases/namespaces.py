"""Namespaces, values and owners: where things are, what they carry and who has them."""

from __future__ import annotations

from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import BaseStore, Owner, Value
from memoranda_testing.case import Cases, moment, note
from memoranda_testing.expect import contents, each_raises, equal, raises, same_item

NASTY = [("a",), ("ab",), ("a", "b"), ("a/b",), ("a", ""), ("a~1b",), ("A",), ("á",), ("a", "b", "c"), ("%",), ("a%",)]
"""Namespaces that are easily taken for one another."""


class NamespaceCases(Cases):
    """A place in a hierarchy."""

    def place(self, scope: MemoryMetadata, *namespace: str) -> MemoryMetadata:
        """Return the scope with a namespace."""
        return MemoryMetadata(user_id=scope.user_id, namespace=namespace)

    async def test_a_namespace_comes_back_as_it_was(self, store: BaseStore) -> None:
        """Every element is any text; the root is the empty tuple."""
        scope = self.scope()
        for namespace in [(), *NASTY, ("users", "Ada Lovelace", "日本")]:
            item = note("x", self.place(scope, *namespace))
            await store.add(item)
            same_item(await store.get(item.id), item, f"the item in {namespace!r}")

    async def test_a_namespace_matches_what_lies_in_it_and_below(self, store: BaseStore) -> None:
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

    async def test_a_handle_is_bound_to_a_place_and_all_below(self, store: BaseStore) -> None:
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

    async def test_what_is_no_namespace_is_refused(self, store: BaseStore) -> None:
        """A text is not a tuple of its letters, and what no store can hold is named."""
        for bad in ("users", ("a", 1), ("a\0",), ("\ud800",), ("x" * 2000,)):
            with raises(InputError, f"an item in the namespace {bad!r}"):
                await store.add(note("x", MemoryMetadata(user_id=self.user(), namespace=bad)))  # type: ignore[arg-type]  # the mistake under test
        with raises(InputError, "a handle at the root"):
            store.scoped(namespace=())


VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.0, 1.5, 2, 10, 2**53, 2**53 + 1, 10**30, -0.0, 1e300),
    *("", "a", "B", "b", "1", "10", "2", "é", "z", "𝔸", "￿", "%", "a'b", 'a"b', "\\", "true", "null"),
    *([], [1], [1.0], [True], ["1"], {}, {"a": 1}, {"a": 1.0}, {"b": [None, 1]}),
]
"""Values that engines take for one another, or sort in a way of their own."""

KEYS = ["k", "K", "k.k", "$k", "'", '"', "k'] = 1 --", "a b", "", "é", "%", "?", ":k", "$.k", "k[0]", "status"]
"""Keys that are no names of columns, however they look."""


class ValueCases(Cases):
    """Conditions on values."""

    async def test_operators_mean_the_same_everywhere(self, store: BaseStore) -> None:
        """Every operator on every kind of value finds what Value.matches says, a missing key included."""
        scope = self.scope()
        items = [
            note(f"{number}", MemoryMetadata(user_id=scope.user_id, extra={"k": value}), number)
            for number, value in enumerate(VALUES)
        ]
        items.append(note("missing", scope, len(VALUES)))
        await store.add_many(items)
        asked: list[tuple[str, Any]] = [("$exists", True), ("$exists", False), ("$in", []), ("$in", VALUES[3:9])]
        asked += [(operator, value) for operator in ("$eq", "$ne") for value in VALUES]
        ordered = [value for value in VALUES if isinstance(value, (int, float, str)) and not isinstance(value, bool)]
        asked += [(operator, value) for operator in ("$gt", "$gte", "$lt", "$lte") for value in ordered]
        for operator, value in asked:
            wanted = [item.content for item in items if Value("k", True, operator, value).matches(item)]
            found = await store.search(metadata=scope, where={"k": {operator: value}}, limit=1000)
            equal(contents(found)[::-1], wanted, f"where k is {operator} {value!r}")

    async def test_keys_are_data(self, store: BaseStore) -> None:
        """A key is compared as it is, whatever it looks like to an engine."""
        scope = self.scope()
        for number, key in enumerate(KEYS):
            extra = {key: number, f"x{key}": -1}
            await store.add(note(key, MemoryMetadata(user_id=scope.user_id, extra=extra), number))
        for number, key in enumerate(KEYS):
            asked = f"extra.{key}"
            found = await store.search(metadata=scope, where={asked: number})
            equal(contents(found), [key], f"where {asked!r}")
            equal(await store.count(metadata=scope, where={asked: {"$exists": True}}), 1, f"count with {asked!r}")

    async def test_fields_of_items_can_be_asked_for(self, store: BaseStore) -> None:
        """The names of an item's fields are those fields; an item without one has None."""
        scope = self.scope(session_id="s")
        first = note("one", scope, 1, name="Ada", status="draft")
        second = note("two", MemoryMetadata(user_id=scope.user_id, extra={"name": "Ada"}), 2)
        await store.add_many([first, second])
        wanted: list[tuple[dict[str, Any], list[str]]] = [
            ({"name": "Ada"}, ["one"]),
            ({"name": None}, ["two"]),
            ({"name": {"$exists": False}}, ["two"]),
            ({"extra.name": "Ada"}, ["two"]),
            ({"status": "draft"}, ["one"]),
            ({"status": {"$ne": "draft"}}, ["two"]),
            ({"session_id": {"$exists": True}}, ["one"]),
            ({"created_at": {"$gte": moment(2)}}, ["two"]),
            ({"created_at": {"$lt": moment(2)}, "memory_type": "note"}, ["one"]),
            ({"version": {"$gte": 1}}, ["two", "one"]),
            ({"version": {"$gt": 1}}, []),
            ({"id": {"$in": [first.id, "nobody"]}}, ["one"]),
            ({"content": {"$gt": "one", "$lte": "two"}}, ["two"]),
            ({"namespace": {"$exists": False}}, ["two", "one"]),
        ]
        for where, texts in wanted:
            equal(contents(await store.search(metadata=scope_of(scope), where=where)), texts, f"where {where!r}")

    async def test_conditions_apply_to_every_call(self, store: BaseStore) -> None:
        """Listing, ranking, counting, scanning, the window and clearing all respect them."""
        scope = self.scope()
        for number in range(4):
            extra = {"score": number, "kind": "fact"}
            await store.add(note(f"tea {number}", MemoryMetadata(user_id=scope.user_id, extra=extra), number))
        where = {"score": {"$gte": 1, "$lt": 3}, "kind": "fact"}
        equal(contents(await store.search(metadata=scope, where=where)), ["tea 2", "tea 1"], "search")
        ranked = await store.search_ranked(query="tea", metadata=scope, where=where, mode="text")
        equal(sorted(contents(found.item for found in ranked)), ["tea 1", "tea 2"], "ranked search")
        equal(await store.count(metadata=scope, where=where), 2, "count")
        equal(contents([item async for item in store.scan(metadata=scope, where=where)]), ["tea 1", "tea 2"], "scan")
        equal(contents(await store.window(metadata=scope, where=where)), ["tea 1", "tea 2"], "window")
        equal(await store.clear(metadata=scope, where=where), 2, "number cleared")
        equal(contents(await store.search(metadata=scope)), ["tea 3", "tea 0"], "what is left")

    async def test_what_cannot_be_asked_is_refused(self, store: BaseStore) -> None:
        """Unknown operators, values without an order, and more than can be meant are InputErrors."""
        bad: list[Any] = [
            *("score", ["score"], {"k": {"$near": 1}}, {"k": {"$gt": None}}, {"k": {"$lt": [1]}}, {"k": {"$in": 3}}),
            *({"k": {"$exists": 1}}, {"k": {"$eq": 1, "x": 2}}, {1: 2}, {"k": float("nan")}, {"k": {"$in": "abc"}}),
            *({"created_at": "soon"}, {"k": {"$gt": True}}, {f"k{number}": 1 for number in range(65)}),
        ]
        for where in bad:
            await each_raises(
                InputError, f"where {where!r}", search=store.search(where=where), count=store.count(where=where)
            )


class OwnerCases(Cases):
    """Who has something."""

    async def test_owners_are_listed_in_order_with_counts_and_times(self, store: BaseStore) -> None:
        """Of each: how many items, archived ones too, and when the first and the last were created."""
        user = self.user()
        within = MemoryMetadata(user_id=user)
        held = {"s2": [3, 1], "s10": [5], "": [2], "S2": [4, 4]}
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
        ]
        equal([owner async for owner in store.owners("session_id", within=within)], wanted, "sessions")
        users = [owner async for owner in store.owners(within=within)]
        equal(users, [Owner(user, 8, moment(0), moment(9))], "users")
        handle = store.scoped(user_id=user)
        equal([owner async for owner in handle.owners("session_id")], wanted, "sessions of a handle")
        paged = [owner async for owner in store.owners("session_id", within=within, limit=2, offset=1)]
        equal(paged, wanted[1:3], "a page of sessions")

    async def test_who_has_nothing_left_is_not_listed(self, store: BaseStore) -> None:
        """Deleted items belong to nobody."""
        scope = self.scope(session_id="s")
        await store.add(note("x", scope))
        await store.clear(metadata=scope)
        found = [owner async for owner in store.owners("session_id", within=MemoryMetadata(user_id=scope.user_id))]
        equal(found, [], "sessions after clearing")

    async def test_namespaces_are_listed_by_depth_beginning_and_end(self, store: BaseStore) -> None:
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

    async def test_owners_that_nobody_counts_are_the_same(self, store: BaseStore) -> None:
        """Without counts the values are those with them, whatever is asked, and nothing else is said of them."""
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

    async def test_what_owns_nothing_cannot_be_listed(self, store: BaseStore) -> None:
        """Only ids and namespaces own; depth and suffix are for namespaces."""
        asked: list[dict[str, Any]] = [
            *({"by": "content"}, {"by": ""}, {"by": "user_id", "depth": 1}, {"by": "namespace", "depth": 0}),
            *({"by": "namespace", "suffix": "p"}, {"limit": -1}, {"offset": True}, {"counts": 0}),
        ]
        for named in asked:
            with raises(InputError, f"owners({named!r})"):
                async for _ in store.owners(**named):
                    pass


def scope_of(scope: MemoryMetadata) -> MemoryMetadata:
    """Return the user of a scope alone."""
    return MemoryMetadata(user_id=scope.user_id)


__all__ = ["NamespaceCases", "OwnerCases", "ValueCases"]
