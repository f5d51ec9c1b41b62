"""What a store promises: the contract in three parts, and the handle that is bound to a scope.

The docstrings of :class:`Store` are the contract. Every sentence in them that an engine can break has a case in the
conformance kit (:mod:`memoranda_testing`). A store checks what it is asked, makes a
:class:`~memoranda.store.requests.Query` or a :class:`~memoranda.store.requests.Write` of it, and hands that to its
layers and its engine.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Literal, Unpack, overload

from memoranda.errors import InputError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, now_text
from memoranda.loops import offload, ranking_weight
from memoranda.plugins.observers import Observer
from memoranda.shapes import check_text, items_of, number, truth, whole_number
from memoranda.store.branches import Branching
from memoranda.store.codec import copy_item
from memoranda.store.engine import Layer
from memoranda.store.filters import EVERYTHING, Filter, Kinds, Moment, Narrowing, Page, check_filter, merge_scope
from memoranda.store.granting import Surroundings, granting
from memoranda.store.observers import ObserverLayer, Observers
from memoranda.store.owners import Spaces, checked_spaces, space_of, space_owner
from memoranda.store.protocol import Capability, SearchMode
from memoranda.store.ranked import DEPTH, JUDGED, RERANKED, Ranker, Recalled, above_floor, judged, rank_items
from memoranda.store.reading import Reading
from memoranda.store.records import writing_records
from memoranda.store.removing import Removing
from memoranda.store.requests import best_of, items_where
from memoranda.store.scope_layer import UNSET, ScopeLayer, scope_metadata
from memoranda.store.values import NO_RECORDS, Value, moment_text
from memoranda.store.writing import Writing
from memoranda.trust import Trust, check_trust, trust_of

SURELY_RANKED = 10_000
"""Every engine ranks a scope of so many items as a whole."""

NEWEST_TOLD = 1_000
"""How many of the newest statements are looked at where a scope is too large to be ranked as a whole."""

_NEVER = [Value("memory_type", False, "$ne", kind) for kind in ("system", "branch", "fact")]


class Store(Writing, Reading, Removing, Branching):
    """A store of memories, and the contract that every one keeps.

    After :meth:`close`, every call raises StoreClosedError.
    """

    def observe(self, observer: Observer) -> None:
        """Tell this observer of what is added, searched and removed from now on; it may change items before adding."""
        self._observers.register(observer)
        for handle in (self, *self._handles):
            handle._observers.attach(handle)

    def scoped(
        self,
        *,
        user_id: str = UNSET,
        session_id: str = UNSET,
        task_id: str = UNSET,
        agent_id: str = UNSET,
        namespace: tuple[str, ...] = UNSET,
        trust: str | None = None,
        origin: str | None = None,
        spaces: Spaces | Iterable[str] | None = None,
    ) -> ScopedStore:
        """Return a handle that is bound to a scope: see :class:`memoranda.store.ScopedStore`.

        A namespace binds to that place and all that lies below it. ``trust`` and ``origin`` are stamped on what the
        handle adds; an item that says a lower trust keeps it. Raises InputError without any field of the scope, and for
        one that is None: a user that was not found is not "any".

        With ``spaces``, ``get``, ``search``, ``recall`` and ``count`` also reach the spaces that are granted to the
        handle's user or agent when the call begins: all of them (``"granted"``), or those in a list. What they read of
        the past, with ``as_of``, is the handle's own. Needs memoranda-spaces; raises PluginNotFoundError without it.
        """
        scope = scope_metadata(
            user_id=user_id, session_id=session_id, task_id=task_id, agent_id=agent_id, namespace=namespace
        )
        handle = self._scoped(scope)
        if trust is not None:
            given = check_trust(trust, "trust")
            handle.trust = given if handle.trust is None else min(given, handle.trust)
        if origin is not None:
            handle.origin = handle.origin or check_text(origin, "origin")
        if spaces is not None:
            handle._reach(checked_spaces(spaces))
        handle._observers.attach(handle)
        return handle

    def space(self, name: str) -> ScopedStore:
        """Return a handle that is bound to a space, as :meth:`scoped` returns one that is bound to a user.

        That of a store is the operator's. That of a handle does what is granted to the handle's user or agent, asked
        anew at every call, and raises NotGrantedError otherwise. Raises InputError for what is no name of a space.
        """
        handle = self._scoped(MemoryMetadata(user_id=space_owner(name)))
        handle._observers.attach(handle)
        return handle

    @property
    def own(self) -> Store:
        """This handle without the spaces that it reaches; of a store, or a handle without any, itself."""
        return self

    async def approve(self, item_id: str, *, trust: str, by: str) -> MemoryItem:
        """Set how far an item is trusted, and return it. Nothing else raises an item's trust.

        Its ``approval`` says by whom, when, and what it was. A handle that stamps a trust of its own approves nothing.
        """
        check_approver(self, by)
        item = await self.get(item_id)
        if item is None:
            raise InputError(f"The item {item_id!r} cannot be approved: there is no such item.", field="item_id")
        approval = {"by": by, "at": now_text(), "from": str(trust_of(item)), "version": item.version}
        approved = {"trust": str(check_trust(trust, "trust")), "approval": approval}
        with writing_records(item.memory_type):
            return await self.update(item.model_copy(update=approved))

    @property
    def bounds(self) -> MemoryMetadata | None:
        """What this handle is bound to, and every handle that it was made from; None if it reaches all of the store."""
        return self._bounds(None)

    @overload
    async def recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        window: Iterable[MemoryItem] = (),
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        min_score: float | None = None,
        current: bool = False,
        verdict: Literal[False] = False,
        now: Moment | None = None,
        shared: bool = False,
        **narrowing: Unpack[Narrowing],
    ) -> list[MemoryItem]: ...

    @overload
    async def recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        window: Iterable[MemoryItem] = (),
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        min_score: float | None = None,
        current: bool = False,
        verdict: Literal[True],
        now: Moment | None = None,
        shared: bool = False,
        **narrowing: Unpack[Narrowing],
    ) -> Recalled: ...

    async def recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        window: Iterable[MemoryItem] = (),
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        min_score: float | None = None,
        current: bool = False,
        verdict: bool = False,
        now: Moment | None = None,
        shared: bool = False,
        **narrowing: Unpack[Narrowing],
    ) -> list[MemoryItem] | Recalled:
        """Return the memories that answer a query, best first; an empty list if none is relevant.

        At most ``limit`` are returned, fifteen without one. Recall uses the best ranking of the store: hybrid with an
        embedder, text without one. Archived items are found too. Left out are system items, items that only repeat the
        query, and those in ``window``: pass what the model is shown anyway. A handle that is bound to a user recalls
        from every session and task of that user; use ``where={"session_id": …}`` to stay in one. Filters and
        ``current`` are those of :meth:`search`.

        Without a ``min_score``, nothing is returned if the ranking finds nothing relevant, and otherwise what scores
        less than two fifths of the best is left out. With one, what scores less is left out and nothing else is: 0
        returns everything that has any relation to the query, up to the limit.

        If the query names a time ("in October", "two weeks ago"), half of the places are for what was said then or some
        days later. ``now`` is when the question is asked (a datetime with a zone, or ISO-8601 text), for times that it
        names from there; the present is the default.

        An empty query asks for what is worth knowing anyway: the most telling statements of people first, of
        equal ones the newest, then everything else. ``min_score`` counts there, too.

        With ``verdict``, returns a :class:`memoranda.store.Recalled` instead: the memories with their scores, whether
        they answer the query, and the words of it that nothing supports. What is in ``window`` counts for that.

        The items are the caller's own copies. With ``shared`` they may be the store's, which is quicker; nobody may
        change them then.
        """
        self._ensure_open()
        shown = {item.id for item in items_of(window, "window")}
        check_text(query, "query")
        most = whole_number(DEPTH if limit is None else limit, "limit")
        least = None if min_score is None else number(min_score, "min_score", most=1)
        reached = self._of_owner()
        wanted = reached._filter(metadata=metadata, memory_type=memory_type, archived=None, **narrowing)
        if metadata is not None:
            reached._bounds(metadata)  # Another user than the handle's is refused, whatever the limit.
        truth(current, "current")
        truth(shared, "shared")
        asked_at = None if now is None else moment_text(now, "now")
        found = Recalled((), "unknown")
        if not query:
            found = await reached._told(wanted.also(*_NEVER, *NO_RECORDS), most, shown, least or 0.0, shared)
        elif query.strip() and (most or truth(verdict, "verdict")):
            wanted = wanted.also(*_NEVER, *NO_RECORDS, Value("content", False, "$ne", query))
            found = await reached._recalled(query, wanted, most, shown, least, current, asked_at, shared)
        return found if verdict else [each.item for each in found]

    async def _told(self, wanted: Filter, most: int, shown: Collection[str], least: float, shared: bool) -> Recalled:
        """Return what is worth knowing whatever is asked."""
        self._require(Capability.TEXT)
        much = min(most + len(shown), EVERYTHING)
        ranked = await self.engine.read(best_of("", wanted, much, "text", shared=shared)) if most else []
        # A scope that is too large to be ranked as a whole is found by words alone.
        if most and not ranked and await self._has_very_many(wanted.metadata):
            newest = await self.engine.read(items_where(wanted, Page(limit=NEWEST_TOLD), reach="granted"))
            if newest:
                weight = ranking_weight(len(newest), (item.content for item in newest))
                own = (await self._text_ranker()).index()
                ranked = await offload(weight, rank_items, own, "", newest, None, much)
        told = [found for found in ranked if found.item.id not in shown and found.score >= least]
        self._observers.searched("", [found.item for found in told[:most]])
        return Recalled(tuple(told[:most]), "known" if told else "unknown")

    async def _has_very_many(self, metadata: MemoryMetadata | None) -> bool:
        """Return True if a scope has so many items that an engine may not rank it as a whole."""
        of_scope = items_where(Filter(metadata=metadata, archived=None), reach="granted")
        return await self.engine.count(of_scope) > SURELY_RANKED

    async def _recalled(
        self,
        query: str,
        wanted: Filter,
        most: int,
        shown: Collection[str],
        least: float | None,
        current: bool,
        now: str | None,
        shared: bool,
    ) -> Recalled:
        """Return the best memories that are not shown already, and the verdict on all that was found."""
        mode: SearchMode = "hybrid" if Capability.HYBRID in self.capabilities else "text"
        self._require(Capability(mode))
        reorders = current or self.reranker is not None
        much = min(max(most + len(shown), RERANKED if reorders else JUDGED), EVERYTHING)
        # A reranker is a stranger: it gets copies. Otherwise only what is returned has to be copied.
        ranked = await self._best(query, wanted, much, mode, now, shared=shared or self.reranker is None)
        verdict, unsupported = judged(await self._text_ranker(), query, ranked[:JUDGED])
        kept = await self._reordered(query, above_floor(ranked, least, verdict), current)
        memories = [found for found in kept if found.item.id not in shown][:most]
        if not shared and self.reranker is None:
            for found in memories:
                found.item = copy_item(found.item)
        self._observers.searched(query, [found.item for found in memories])
        return Recalled(tuple(memories), verdict, unsupported)

    def _of_owner(self) -> Store:
        """Return the handle of the same user without this one's session and task; a store is its own.

        A user's memory outlasts sessions and tasks. What it writes is trusted no further than what this one writes, and
        has the same origin.
        """
        return self

    def _scoped(self, scope: MemoryMetadata) -> ScopedStore:
        """Return the handle; a store whose searches are a view of its own gives one that shows the same view."""
        return ScopedStore(self, scope)


def of_owner(store: Store) -> Store:
    """Return the handle of the same user without a handle's session and task, as ``recall`` looks at it.

    A user's memory outlasts sessions and tasks. A store is returned as it is.
    """
    return store._of_owner()


def check_approver(store: Store, by: str) -> None:
    """Raise InputError unless an approval has a name, and a handle that may decide; see :func:`check_reviewer`."""
    check_reviewer(store)
    if not check_text(by, "by").strip():
        raise InputError("An approval needs the name of the person who gives it.", field="by")


def check_reviewer(store: Store) -> None:
    """Raise InputError for a handle with a trust: it speaks for somebody else than the person who decides."""
    trust = getattr(store, "trust", None)
    if trust is not None:
        raise InputError(
            f"A handle with the trust {str(trust)!r} approves nothing. Use the store, or a handle without a trust.",
            field="trust",
        )


class ScopedStore(Store):
    """A store within a scope; made by ``store.scoped(user_id=…)``.

    It stamps every item it adds with the scope and refuses an item with another owner. It cannot see, overwrite, hide
    or remove anything outside the scope. A filter that names another scope is an InputError. It fails closed: all that
    it does goes through the layer of its scope. Closing a handle does nothing; the store stays open. The store's
    observers see all calls of its handles; an observer of a handle sees only its calls. Only :meth:`recall` looks
    beyond the session: at everything of the same user.
    """

    needs_init = False
    _bounded = True
    spaces: Spaces | None = None
    """Which spaces this handle reaches beside its scope; None for none."""

    _layer_around: Callable[[Surroundings], Layer] | None = None
    """What makes the layer around that of the scope: it looks up grants. None for a handle without grants."""

    _owner: ScopedStore | None = None
    """The handle of the whole user, once a recall has asked for it."""

    def __init__(self, store: Store, scope: MemoryMetadata) -> None:
        root = store.root
        # A handle of a handle is bound to both; two that contradict each other are refused here and not at every call.
        outer = store.scope if isinstance(store, ScopedStore) else None
        self.scope: MemoryMetadata = merge_scope(scope, outer) or scope
        self._root = root
        self._living, self._branches, self._within = root._living, root._branches, self.scope
        self._bind(Observers(store._observers))
        # A handle of a handle speaks for the same writer.
        if isinstance(store, ScopedStore):
            self.trust, self.origin = store.trust, store.origin
            self._surround(store.spaces, store._layer_around)
        self.item_types = store.item_types
        self.reranker = store.reranker
        self.access = store.access
        self._label = store._label
        self._handles = root._handles
        self._handles.add(self)
        # Whether it is open, and what an item is read as, is the store's to say: bound here, since every call asks.
        self.__dict__.update(_ensure_open=root._ensure_open, _typed=root._typed)

    def _bind(self, observers: Observers) -> None:
        """Stand on the layers of the store, with these observers and the scope."""
        self._observers = observers
        self._bound = ScopeLayer(ObserverLayer(self._living, observers, weakref.ref(self)), self.scope)
        self.engine = self._bound
        self._owner = None

    def _reach(self, spaces: Spaces) -> None:
        """Reach spaces, too: of those that the handle which this one is made from reaches, if it is made from one."""
        if space_of(self.scope) is not None:  # What it does there is granted to a user, whom the scope does not name.
            raise InputError("A handle of a space reaches that space alone: leave out spaces=….", field="spaces")
        if isinstance(self.spaces, tuple):
            spaces = self.spaces if spaces == "granted" else tuple(each for each in spaces if each in self.spaces)
        self._surround(spaces, granting(self._root).reading_layer)

    def _surround(self, spaces: Spaces | None, layer: Callable[[Surroundings], Layer] | None) -> None:
        """Stand on a layer around that of the scope, which looks up grants; None for none."""
        self.spaces, self._layer_around = spaces, layer
        self.engine = self._surrounded(self._bound)
        self._owner = None

    def _surrounded(self, bound: ScopeLayer) -> Layer:
        if self._layer_around is None:
            return bound
        return self._layer_around(Surroundings(bound, self._living, self.spaces))

    def space(self, name: str) -> ScopedStore:
        """Return a handle of a space that does what is granted to this one's user or agent: see :meth:`Store.space`."""
        handle: ScopedStore = self._root._scoped(MemoryMetadata(user_id=space_owner(name)))
        handle._bind(self._observers)
        handle.reranker = self.reranker
        granted = granting(self._root)
        handle.trust, handle.origin = granted.stamps(self.scope, self.trust)
        handle._surround(None, partial(granted.space_layer, self.scope))
        handle._observers.attach(handle)
        return handle

    @property
    def own(self) -> ScopedStore:
        """This handle without the spaces that it reaches."""
        if self.spaces is None:
            return self
        return self._copied(self.scope, None)

    def _copied(self, scope: MemoryMetadata, spaces: Spaces | None) -> ScopedStore:
        """Return a handle of another scope with the same observers, for the same writer."""
        copied: ScopedStore = self._root._scoped(scope)
        copied._bind(self._observers)
        copied.reranker = self.reranker
        copied.trust, copied.origin = self.trust, self.origin
        if spaces is not None or self.spaces is None:
            copied._surround(spaces, self._layer_around)
        return copied

    def __repr__(self) -> str:
        names = [name for name in SCOPE_FIELDS if getattr(self.scope, name) is not None]
        bound = ", ".join(f"{name}=…" for name in (*names, *(["namespace"] if self.scope.namespace else [])))
        return f"{self._root!r}.scoped({bound})"

    @property
    def root(self) -> Any:
        """The store that this handle is bound in."""
        return self._root

    @property
    def trust(self) -> Trust | None:
        """How far what this handle writes is trusted at most; None for as far as its items say."""
        return self._bound.trust

    @trust.setter
    def trust(self, trust: Trust | None) -> None:
        self._bound.trust = trust
        self._owner = None

    @property
    def origin(self) -> str | None:
        """Where what this handle writes comes from; None for what its items say."""
        return self._bound.origin

    @origin.setter
    def origin(self, origin: str | None) -> None:
        self._bound.origin = origin
        self._owner = None

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]  # read-only here, as the store says
        """What the store underneath can do."""
        return self._root.capabilities

    async def exists(self) -> bool:
        """Return True if the store underneath is there."""
        return await self._root.exists()

    async def init(self) -> None:
        """Do nothing: the store underneath has its own life."""

    async def close(self) -> None:
        """Do nothing: the store underneath has its own life."""

    def derived_id(self, text: str, *, digits: int = 32) -> str:
        """Return an id that is made from a text, as the store underneath makes it."""
        return self._root.derived_id(text, digits=digits)

    def _of_owner(self) -> Store:
        """Return the handle of the same user without this one's session and task: see `of_owner`."""
        if self.scope.user_id is None or (self.scope.session_id is None and self.scope.task_id is None):
            return self
        if self._owner is None:
            self._owner = self._copied(self.scope.model_copy(update={"session_id": None, "task_id": None}), self.spaces)
        self._owner.reranker = self.reranker
        return self._owner

    @property
    def unobserved(self) -> Layer:
        """What answers requests within the scope that observers are neither asked about nor told of."""
        layer = ScopeLayer(self._living, self.scope)
        layer.trust, layer.origin = self.trust, self.origin
        return self._surrounded(layer)

    def _reached(self, wanted: Filter) -> Filter:
        return super()._reached(self._bound.within_scope(wanted))

    def _bounds(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        return merge_scope(metadata, self.scope)

    def _checked_mode(self, mode: SearchMode | None) -> SearchMode:
        return self._root._checked_mode(mode)

    async def _text_ranker(self) -> Ranker:
        return await self._root._text_ranker()

    async def get(
        self, item_id: str, *, metadata: MemoryMetadata | None = None, refresh: bool = False
    ) -> MemoryItem | None:
        """Return the item of this id if it lies in the scope and matches the filter; see :meth:`Store.get`."""
        return await super().get(item_id, metadata=self._within_scope(metadata), refresh=refresh)

    async def get_many(
        self, ids: Iterable[str], *, metadata: MemoryMetadata | None = None, refresh: bool = False
    ) -> list[MemoryItem]:
        """Return the items of these ids that lie in the scope and match the filter; see :meth:`Store.get_many`."""
        return await super().get_many(ids, metadata=self._within_scope(metadata), refresh=refresh)

    def _within_scope(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return the filter. Raises InputError if it names another scope."""
        if metadata is not None:
            merge_scope(check_filter(metadata), self.scope)
        return metadata
