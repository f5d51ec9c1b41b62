"""The reading methods of the model: look at everything, then cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from memoranda.errors import InputError, UnsupportedError
from memoranda.integrity import whole_groups
from memoranda.items import BranchMemory, MemoryItem, MemoryMetadata, Payload, now_text
from memoranda.store import EVERYTHING, Capability, Order, Owner, RankedItem, Recalled, copy_item
from memoranda.store.backend import Filter, Listing, Page, as_one_session, check_filter, in_order, metadata_matches
from memoranda.store.ranked import BESIDE_THE_BEST, DEPTH, JUDGED, RERANKED
from memoranda.tokens import estimate_tokens
from memoranda.windowing import as_said, last_rounds, newest, rounds_within
from memoranda_backend.ranking import by_time, conversation_key, judge, passage_of, rank_text
from memoranda_backend.text.superseding import newest_first
from memoranda_testing.model.handle import Handle
from memoranda_testing.model.state import Refused, as_scanned, shown


class Reading(Handle):
    """The methods that change nothing."""

    def get(self, item_id: str, *, metadata: MemoryMetadata | None = None, refresh: bool = False) -> MemoryItem | None:
        """Return the item of this id."""
        found = self.get_many([item_id], metadata=metadata, refresh=refresh)
        return found[0] if found else None

    def get_many(
        self, ids: Iterable[str], *, metadata: MemoryMetadata | None = None, refresh: bool = False
    ) -> list[MemoryItem]:
        """Return the items of these ids, in their order."""
        self._begin()
        bounds = self._bounds(check_filter(metadata))
        rows = [self.model.rows.get(item_id) for item_id in dict.fromkeys(ids)]
        there = [row for row in rows if row and not row.deleted and metadata_matches(bounds, row.item.metadata)]
        return self._read([row.item for row in there], refresh)

    def search(
        self,
        *,
        limit: int = 10,
        offset: int = 0,
        order: Order | None = None,
        mode: str | None = None,
        refresh: bool = False,
        query: str = "",
        min_score: float = 0.0,
        current: bool = False,
        **filters: Any,
    ) -> list[MemoryItem]:
        """Return a page of what matches, newest first."""
        self._begin()
        page = Page.checked(limit, offset, order or self.model.default_order)
        if query and mode not in (None, "substring"):
            ranked = self.search_ranked(
                query=query, limit=limit, offset=offset, mode=mode, min_score=min_score, current=current, **filters
            )
            return self._read([found.item for found in ranked], refresh)
        if not page.limit:
            self._asked(query=query, **filters)
            return []
        return self._read(page.of(self._matching(self._filter(query=query, **filters))), refresh)

    def search_ranked(
        self,
        *,
        query: str,
        limit: int = 10,
        offset: int = 0,
        mode: str | None = None,
        min_score: float = 0.0,
        current: bool = False,
        **filters: Any,
    ) -> list[RankedItem]:
        """Return what answers the query best by words; the page is cut after filtering."""
        self._begin()
        if mode not in (None, "substring", "text"):
            raise Refused(UnsupportedError)
        page = Page.checked(limit, offset, "created")
        if not query:
            raise Refused(InputError)
        if not page.limit:
            self._asked(**filters)
            return []
        timed = _timed(query, self._ranked(query, self._filter(**filters)), None)
        ranked = [found for found in timed if found.score >= min_score]
        return _in_order(query, ranked, current)[page.offset : page.end]

    def recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        window: Iterable[MemoryItem] = (),
        min_score: float | None = None,
        current: bool = False,
        verdict: bool = False,
        now: str | None = None,
        shared: bool = False,
        **filters: Any,
    ) -> list[MemoryItem] | Recalled:
        """Return what answers a query, of all sessions and tasks of the handle's user.

        Whether the items are ``shared`` with the store changes nothing of what they say.
        """
        self._begin()
        user = self
        if self.scope is not None and self.scope.user_id is not None:
            user = type(self)(self.model, self.scope.model_copy(update={"session_id": None, "task_id": None}))
        ranked = user._ranked(query, user._filter(archived=None, **filters))
        memories = [
            found
            for found in ranked
            if found.item.memory_type not in ("system", "branch") and found.item.content != query
        ]
        memories = _timed(query, memories, now)
        known, unsupported = judge(query, memories[:JUDGED])
        least = min_score
        if least is None:
            least = 2.0 if known == "unknown" else BESIDE_THE_BEST * memories[0].score
        shown_already = {item.id for item in window}
        ordered = _in_order(query, [found for found in memories if found.score >= least], current)
        recalled = [found for found in ordered if found.item.id not in shown_already]
        recalled = recalled[: DEPTH if limit is None else limit]
        items = self._read([found.item for found in recalled], False)
        if not verdict:
            return items
        memories = [replace(found, item=item) for found, item in zip(recalled, items, strict=True)]
        return Recalled(tuple(memories), known, unsupported)

    def _ranked(self, query: str, wanted: Filter) -> list[RankedItem]:
        """Return all that matches and has to do with the query, best first."""
        fits = shown(self.model.rows, wanted)
        scope = in_order(self._matching(wanted.scope()), "created")
        conversations: dict[Any, list[MemoryItem]] = {}
        for item in reversed(scope):
            conversations.setdefault(conversation_key(item), []).insert(0, item)
        by_id = {item.id: item for item in scope}
        ranked = rank_text(
            query,
            [[passage_of(item) for item in said] for said in conversations.values()],
            total=len(scope),
            wanted=lambda item_id: fits(by_id[item_id]),
        )
        places = {item_id: place for place, item_id in enumerate(self.model.rows)}
        # Equal ones come as in a listing: the newest first.
        ranked.sort(key=lambda one: (round(one.score, 9), by_id[one.key].created_at, places[one.key]), reverse=True)
        return [one.ranked(copy_item(by_id[one.key])) for one in ranked]

    def window(
        self, *, rounds: int | None = None, tokens: int | None = None, limit: int | None = None, **filters: Any
    ) -> list[MemoryItem]:
        """Return a conversation as a model may be shown it: read all of it, then cut."""
        self._begin()
        wanted = self._filter(**filters)
        session = None if wanted.metadata is None else wanted.metadata.session_id
        said = as_said(as_one_session(self._matching(wanted), session))
        found = list(said)
        if rounds is not None:
            found = last_rounds(found, rounds)
        if tokens is not None:
            found = rounds_within(found, tokens, estimate_tokens)
        if limit is not None:
            found = newest(found, limit)
        return self._read(as_said(whole_groups(found, said)), False)

    def payloads(self, *, limit: int = EVERYTHING, **filters: Any) -> list[Payload]:
        """Return the payloads of what a search shows, oldest first."""
        found = self.search(limit=limit, order="added", **filters)
        return [Payload.of(item) for item in reversed(found)]

    def head(self, *, metadata: MemoryMetadata | None = None) -> str | None:
        """Return the id of the item that was added last."""
        self._begin()
        return self._head(self._filter(metadata=metadata, archived=None))

    def count(self, *, include_deleted: bool = False, **filters: Any) -> int:
        """Return the number of items."""
        self._begin()
        return len(self._matching(self._filter(archived=None, **filters), deleted=include_deleted))

    def scan(
        self,
        *,
        include_deleted: bool = False,
        order: Order | None = None,
        archived: bool | None = None,
        **filters: Any,
    ) -> list[MemoryItem]:
        """Return everything that matches, oldest first."""
        self._begin()
        if include_deleted:
            self._require(Capability.DELETE)
        rows, wanted = self.model.rows, self._filter(archived=archived, **filters)
        found = [
            as_scanned(rows, item, wanted, deleted=include_deleted) if isinstance(item, BranchMemory) else item
            for item in self._matching(wanted, deleted=include_deleted)
        ]
        return self._read(in_order(found, order or self.model.default_order), False)

    def owners(
        self,
        by: Any = "user_id",
        *,
        within: MemoryMetadata | None = None,
        depth: int | None = None,
        suffix: Sequence[str] = (),
        limit: int | None = None,
        offset: int = 0,
        counts: bool = True,
    ) -> list[Owner]:
        """Return the owners, in order."""
        self._begin()
        page = Page.checked(EVERYTHING if limit is None else limit, offset, "created")
        if not page.limit:
            return []
        found = self._matching(self._filter(metadata=within, archived=None))
        owners = Listing(by, depth, tuple(suffix)).of(found)[page.offset : page.end]
        return owners if counts else [Owner(owner.value, 0, "", "") for owner in owners]

    def exists(self) -> bool:
        """Return True: an open store exists."""
        return True


def _timed(query: str, ranked: list[RankedItem], now: str | None) -> list[RankedItem]:
    """Return the results as a query that names a time orders them."""
    timed = by_time(query, now or now_text())
    return ranked if timed is None else timed(ranked)


def _in_order(query: str, ranked: list[RankedItem], current: bool) -> list[RankedItem]:
    """Return results best first; with ``current``, the newest first of those that say the same."""
    return [*newest_first(query, ranked[:RERANKED]), *ranked[RERANKED:]] if current else ranked
