"""The reading half of the contract: by id, by filter, by rank, one after the other. See :class:`Store`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Unpack

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus, Payload, PayloadChanges
from memoranda.loops import filter_weight, offload
from memoranda.plugins.registry import default_registry
from memoranda.shapes import check_text, number, texts_of, truth, whole_number
from memoranda.store.filters import (
    EVERYTHING,
    Filter,
    Kinds,
    Moment,
    Narrowing,
    Order,
    Page,
    check_filter,
    metadata_matches,
)
from memoranda.store.history import History
from memoranda.store.lifetimes import end_of_life
from memoranda.store.owners import Owner, OwnerField, Reach, check_listing
from memoranda.store.protocol import Capability, SearchMode
from memoranda.store.ranked import RERANKED, TIMED, RankedItem, reranked
from memoranda.store.requests import (
    AS_ADDED,
    EVERY_ITEM,
    HEAD_ONLY,
    Change,
    Write,
    best_of,
    items_of_ids,
    items_where,
    payloads_where,
)
from memoranda.store.values import NO_RECORDS
from memoranda.store.window import read_window
from memoranda.tokens import TokenCounter, estimate_tokens


class Reading(History):
    """What a store's reading methods promise."""

    async def get(
        self, item_id: str, *, metadata: MemoryMetadata | None = None, refresh: bool = False
    ) -> MemoryItem | None:
        """Return the item of this id, or None if there is none, it was removed, or it does not match ``metadata``.

        Without ``metadata``, knowing an id is enough to read the item; use a scoped handle or a filter to prevent that.
        Archived items are returned. The item is the caller's own copy and carries the version the store gave it. With
        ``refresh``, an item that has a ttl lives that long once more.
        """
        self._ensure_open()
        check_text(item_id, "item_id")
        if metadata is not None:
            check_filter(metadata)
        found = await self.engine.read(items_of_ids((item_id,), "granted"))
        if not found or (metadata is not None and not metadata_matches(metadata, found[0].metadata)):
            return None
        return found[0] if refresh is False else (await self._refreshed(found, refresh))[0]

    async def get_many(
        self, ids: Iterable[str], *, metadata: MemoryMetadata | None = None, refresh: bool = False
    ) -> list[MemoryItem]:
        """Return the items of these ids, in the order of the ids and each once; those that are not there are left out.

        Everything else is as :meth:`get` says.
        """
        self._ensure_open()
        check_filter(metadata)
        wanted = list(dict.fromkeys(texts_of(ids, "ids")))
        if not wanted:
            return []
        held = await self.engine.read(items_of_ids(wanted, "granted"))
        found = await offload(filter_weight(len(held)), _in_order_of, wanted, held, metadata)
        return await self._refreshed(found, refresh)

    async def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
        offset: int = 0,
        order: Order | None = None,
        refresh: bool = False,
        archived: bool | None = False,
        min_score: float = 0.0,
        current: bool = False,
        as_of: Moment | None = None,
        **narrowing: Unpack[Narrowing],
    ) -> list[MemoryItem]:
        """Return the items that match every filter, newest first; of equal time, the last added first.

        ``query`` is a literal substring of the content, compared by Unicode case folding; the empty text matches all.
        With a ``mode`` other than ``"substring"`` the query is a question instead, and items come best first: see
        :meth:`search_ranked`, for ``current`` as well. ``limit`` is the most to return: 0 returns nothing, a huge one
        all, a negative one is an InputError. ``offset`` passes over so many before. ``memory_type`` is one type or
        several. Items that a summary stands for are left out; ``archived=True`` returns only them, None both.

        ``since`` and ``until`` (a datetime with a zone, or ISO-8601 text) bound ``created_at``, the first included and
        the second not. ``where`` asks for values of ``metadata.extra`` and of the item's fields, such as
        ``{"score": {"$gte": 3}, "kind": "fact"}``: see :mod:`memoranda.store.values`. ``order`` is by ``"created"``,
        which is the default, by ``"updated"``, or as the items were ``"added"``. ``min_trust`` leaves out what is
        trusted less: see :class:`memoranda.trust.Trust`. With ``refresh``, what is returned and has a ttl lives that
        long once more.

        ``as_of`` (a datetime with a zone, or ISO-8601 text) shows what was there at that moment, in a store that keeps
        :meth:`versions`. All of the scope is read for it. What was purged or has expired since is not shown, and
        earlier versions only as long as they are kept. A search by meaning is one by words then.
        """
        if as_of is not None:
            past = await self._at(as_of)
            found: list[MemoryItem] = await past.search(
                query=query,
                metadata=metadata,
                memory_type=memory_type,
                status=status,
                limit=limit,
                mode=mode,
                offset=offset,
                order=order,
                archived=archived,
                min_score=min_score,
                current=current,
                **narrowing,
            )
            return found
        self._ensure_open()
        mode = self._checked_mode(mode)
        page = Page.checked(limit, offset, self._order(order))
        said = query if mode == "substring" else ""
        wanted = self._filter(
            query=said, metadata=metadata, memory_type=memory_type, status=status, archived=archived, **narrowing
        )
        return await self._listed(query, wanted, page, mode, refresh, min_score, current, "granted")

    async def _listed(
        self,
        query: str,
        wanted: Filter,
        page: Page,
        mode: SearchMode,
        refresh: bool,
        min_score: float,
        current: bool,
        reach: Reach = "own",
    ) -> list[MemoryItem]:
        """Return the items that match, newest first; where the mode ranks and there is a query, best first."""
        floor = number(min_score, "min_score", most=1)
        if mode != "substring" and query:
            found = [ranked.item for ranked in await self._ranked(query, wanted, page, mode, floor, current)]
        elif floor:
            raise InputError("min_score needs a query and a mode that ranks.", field="min_score")
        else:
            asked = items_where(_without_records(wanted), page, reach=reach)
            found = await self.engine.read(asked) if page.limit else []
            self._observers.searched(query, found)
        return found if refresh is False else await self._refreshed(found, refresh)

    async def search_ranked(
        self,
        *,
        query: str,
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
        offset: int = 0,
        archived: bool | None = False,
        min_score: float = 0.0,
        current: bool = False,
        **narrowing: Unpack[Narrowing],
    ) -> list[RankedItem]:
        """Return the items that answer the query best, best first, each with its score and what made it.

        ``mode`` is ``"text"`` (words, weighted by how rare they are, with the neighbouring turns), ``"semantic"``
        (embeddings) or ``"hybrid"`` (both); None is the store's own default, or text where that is substring. Filters,
        ``limit`` and ``offset`` are those of :meth:`search`; items with no relation to the query are left out of a text
        ranking.

        Scores run from 0, nothing in common with the query, to 1, all that it asks for, in every mode and whatever the
        size of the scope; items that score less than ``min_score`` are left out. What lies outside of the scope changes
        no score. A reranker's scores are its own, and ``min_score`` is asked for before it. With ``current``, items
        among the first fifty that say the same with different values exchange their places: the newest comes first.

        Raises UnsupportedError for a mode that this store does not have, InputError for an empty query.
        """
        self._ensure_open()
        mode = self._checked_mode(mode)
        if mode == "substring":
            mode = "text"
        self._require(Capability(mode))
        page = Page.checked(limit, offset, "created")
        if not check_text(query, "query"):
            raise InputError("A ranked search needs a query.", field="query")
        wanted = self._filter(metadata=metadata, memory_type=memory_type, status=status, archived=archived, **narrowing)
        return await self._ranked(query, wanted, page, mode, number(min_score, "min_score", most=1), current)

    async def _ranked(
        self, query: str, wanted: Filter, page: Page, mode: SearchMode, floor: float, current: bool
    ) -> list[RankedItem]:
        check_text(query, "query")
        ranked = []
        if page.limit:
            reorders = truth(current, "current") or self.reranker is not None
            much = min(max(page.end, RERANKED), EVERYTHING) if reorders else page.end
            ranked = await self._best(query, _without_records(wanted), much, mode, None)
            if floor:
                ranked = [found for found in ranked if found.score >= floor]
            ranked = await self._reordered(query, ranked, current)
        ranked = ranked[page.offset : page.end]
        self._observers.searched(query, [found.item for found in ranked])
        return ranked

    async def _best(
        self, query: str, wanted: Filter, much: int, mode: SearchMode, now: str | None, *, shared: bool = False
    ) -> list[RankedItem]:
        """Return the best results; if the query names a time, seen from now, those of that time have their places."""
        by_time = None if mode == "semantic" else getattr(await self._text_ranker(), "by_time", None)
        timed = None if by_time is None else by_time(query, now or self._living.now())
        if timed is None:
            return await self.engine.read(best_of(query, wanted, much, mode, shared=shared))
        # Those of that time may come later.
        ranked = await self.engine.read(best_of(query, wanted, max(much, TIMED), mode, shared=shared))
        return [*timed(ranked[:TIMED]), *ranked[TIMED:]][:much]

    async def _reordered(self, query: str, ranked: list[RankedItem], current: bool) -> list[RankedItem]:
        """Return the results in the order of the reranker, if there is one, and of a search with ``current``."""
        if self.reranker is not None:
            ranked = await reranked(self.reranker, query, ranked)
        if current and (newest_first := getattr(await self._text_ranker(), "newest_first", None)):
            ranked[:RERANKED] = newest_first(query, ranked[:RERANKED])
        return ranked

    async def window(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        rounds: int | None = None,
        tokens: int | None = None,
        limit: int | None = None,
        counter: TokenCounter | None = None,
        receipt: object = None,
        as_of: Moment | None = None,
        **narrowing: Unpack[Narrowing],
    ) -> list[MemoryItem]:
        """Return a conversation as a model may be shown it, oldest first, in the order in which it was said.

        Every system item and every summary is in it, and of the rest the last ``rounds``, as many of the newest rounds
        as fit into ``tokens``, the newest items up to ``limit``, or all three; without any of them, everything. What a
        tool was asked is there with all its results or not at all. No more is read than that takes. ``counter`` counts
        the tokens of an item; the library's own estimate does otherwise. Filters and ``as_of`` are those of
        :meth:`search`. Of a session that was forked, the past that it shares is shown as its own. ``receipt`` is that
        of :meth:`shown`; a window of the past has none.
        """
        much = {"rounds": rounds, "tokens": tokens, "limit": limit}
        if as_of is not None:
            past = await self._at(as_of)
            then: list[MemoryItem] = await past.window(metadata=metadata, counter=counter, **much, **narrowing)
            return then
        self._ensure_open()
        wanted = self._filter(metadata=metadata, **narrowing)
        bounds = self._bounds(metadata)
        looked_at: list[list[MemoryItem]] | None = [] if receipt or self._answering("shown") else None
        session = None if bounds is None else bounds.session_id
        shown = await read_window(self.engine, wanted, **much, counter=counter, session=session, looked_at=looked_at)
        self._observers.searched("", shown)
        asked = {**much, **narrowing}
        if looked_at is not None:
            await self.shown(shown, receipt=receipt, owner=bounds, asked=asked, counter=counter, looked_at=looked_at)
        return shown

    async def shown(self, items: Sequence[MemoryItem], /, *, receipt: object = None, **context: Any) -> None:
        """Wait for observers with an async ``shown()``: they record what a model is shown, and how it was chosen.

        With ``receipt``, the plugin memoranda-receipts records it even where it does not observe; False records none.
        """
        recorders = self._answering("shown")
        if receipt and not recorders:
            recorders = [default_registry().observer("receipts")]
        for recorder in recorders if receipt is not False else ():
            await recorder.shown(self, items, receipt=receipt, **context)

    async def known(
        self,
        *,
        tokens: int,
        counter: TokenCounter | None = None,
        metadata: MemoryMetadata | None = None,
        min_trust: str | None = None,
        at: Moment | None = None,
    ) -> list[str]:
        """Return what observers know to hold of the user whom this handle is bound to, as lines for a prompt.

        Observers with an async ``known()`` are asked, such as that of ``memoranda.open(url, facts="rules")``; without
        one there are no lines. Together they take at most so many ``tokens``. What was added before the call counts,
        what is trusted less than ``min_trust`` does not. ``metadata`` narrows whom it is about, as a handle does. With
        ``at``, they are the lines of that moment, as it was known then.
        """
        self._ensure_open()
        count, left = counter or estimate_tokens, whole_number(tokens, "tokens")
        lines: list[str] = []
        for observer in self._answering("known"):
            asked = {"tokens": left, "counter": count, "min_trust": min_trust, "at": at}
            found = await observer.known(self, self._bounds(check_filter(metadata)), **asked)
            left -= sum(count(MemoryItem(content=f"{line}\n")) for line in found)
            lines += found
        return lines

    async def outdated(
        self,
        ids: Iterable[str],
        *,
        metadata: MemoryMetadata | None = None,
        min_trust: str | None = None,
        at: Moment | None = None,
    ) -> dict[str, str]:
        """Return which of some items say what holds no longer: a short remark for each of them, by its id.

        A remark is such as "no longer true: Porto since 2026-03". Observers with an async ``outdated()`` are asked; the
        other arguments are those of :meth:`known`.
        """
        self._ensure_open()
        wanted = texts_of(ids, "ids")
        remarks: dict[str, str] = {}
        for observer in self._answering("outdated") if wanted else ():
            owner = self._bounds(check_filter(metadata))
            remarks |= await observer.outdated(self, owner, wanted, min_trust=min_trust, at=at)
        return remarks

    def _answering(self, question: str) -> list[Any]:
        """Return the observers that have a method of this name."""
        return [observer for observer in self._observers if hasattr(observer, question)]

    async def payloads(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        limit: int = EVERYTHING,
        archived: bool | None = False,
        **narrowing: Unpack[Narrowing],
    ) -> list[Payload]:
        """Return the payloads of what :meth:`search` shows, the newest ``limit``, oldest first, in the order of adding.

        Items without one are among them. No items are made of what is stored, which is most of what reading many costs.
        """
        self._ensure_open()
        page = Page.checked(limit, 0, "added")
        wanted = self._filter(metadata=metadata, memory_type=memory_type, archived=archived, **narrowing)
        if not self._observers:
            found = payloads_where(_without_records(wanted), page)
            return (await self.engine.read(found))[::-1] if page.limit else []
        return list(map(Payload.of, reversed(await self._listed("", wanted, page, "substring", False, 0.0, False))))

    async def payload_changes(
        self,
        before: PayloadChanges | None,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        archived: bool | None = False,
    ) -> PayloadChanges:
        """Return how :meth:`payloads` differs from what it was at an earlier call with the same arguments.

        ``before`` is what that call returned; without one, all are returned. So are they where a store cannot tell.
        """
        if self._observers.active:
            shown = await self.payloads(metadata=metadata, memory_type=memory_type, archived=archived)
            return PayloadChanges.of_all(shown)
        self._ensure_open()
        wanted = self._filter(metadata=metadata, memory_type=memory_type, archived=archived)
        return await self.engine.changes(payloads_where(_without_records(wanted), AS_ADDED), before and before.state)

    async def head(self, *, metadata: MemoryMetadata | None = None) -> str | None:
        """Return the id of the item that was added last, which :meth:`append` asks for; None if there is none.

        Archived items count, summaries do not: they come later than what they stand for.
        """
        self._ensure_open()
        wanted = self._filter(metadata=metadata, archived=None).also(*HEAD_ONLY)
        newest = await self.engine.read(items_where(wanted, Page(1, order="added")))
        return newest[0].id if newest else None

    async def count(
        self,
        *,
        include_deleted: bool = False,
        metadata: MemoryMetadata | None = None,
        as_of: Moment | None = None,
        **narrowing: Unpack[Narrowing],
    ) -> int:
        """Return the number of items, archived ones included; with ``include_deleted`` also deleted ones.

        Filters and ``as_of`` are those of :meth:`search`.
        """
        if as_of is not None:
            past = await self._at(as_of)
            counted: int = await past.count(include_deleted=include_deleted, metadata=metadata, **narrowing)
            return counted
        self._ensure_open()
        wanted = self._filter(metadata=metadata, archived=None, **narrowing)
        return await self.engine.count(items_where(wanted, deleted=include_deleted, reach="granted"))

    async def scan(
        self,
        *,
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        status: MemoryStatus | None = None,
        archived: bool | None = None,
        include_deleted: bool = False,
        order: Order | None = None,
        as_of: Moment | None = None,
        **narrowing: Unpack[Narrowing],
    ) -> AsyncGenerator[MemoryItem, None]:
        """Yield every item that matches, archived ones too, oldest first; of equal time, the first added first.

        On a store that streams, memory use does not grow with their number. Items that are there for the whole scan
        are yielded exactly once, in the order ``added`` even if their times change meanwhile; others may or may not be.
        ``include_deleted`` needs the capability ``delete``. Filters, ``order`` and ``as_of`` are those of
        :meth:`search`. The record of a branch names the last items of its past that this scan yields, so that
        :meth:`fork` can copy it.
        """
        if as_of is not None:
            past = await self._at(as_of)
            async for item in past.scan(
                metadata=metadata,
                memory_type=memory_type,
                status=status,
                archived=archived,
                include_deleted=include_deleted,
                order=order,
                **narrowing,
            ):
                yield item
            return
        self._ensure_open()
        if include_deleted:
            self._require(Capability.DELETE)
        wanted = self._filter(metadata=metadata, memory_type=memory_type, status=status, archived=archived, **narrowing)
        async for item in self.engine.stream(
            items_where(wanted, Page(order=self._order(order)), deleted=include_deleted)
        ):
            yield item

    async def owners(
        self,
        by: OwnerField = "user_id",
        *,
        within: MemoryMetadata | None = None,
        depth: int | None = None,
        suffix: Iterable[str] = (),
        limit: int | None = None,
        offset: int = 0,
        counts: bool = True,
    ) -> AsyncGenerator[Owner, None]:
        """Yield who has something, in order, each with how many items and the times of the first and the last.

        ``by`` is ``"user_id"``, ``"session_id"``, ``"task_id"``, ``"agent_id"`` or ``"namespace"``; items without one,
        and deleted ones, are left out; archived ones count. ``within`` bounds whose items are looked at; its
        namespace is the place below which namespaces are listed. ``suffix`` keeps those that end so, and ``depth`` cuts
        off what is left, below so many elements. The order is that of the texts' characters, of namespaces that of
        :func:`memoranda.store.namespace_key`. ``limit`` and ``offset`` page through it. Without ``counts`` only the
        values are looked up, which can be much quicker: the counts are 0 then, and the times empty.
        """
        self._ensure_open()
        listing = check_listing(by, depth, suffix, counts)
        page = Page.checked(EVERYTHING if limit is None else limit, offset, "created")
        position = 0
        if page.limit:
            wanted = items_where(self._filter(metadata=within, archived=None))
            async for owner in self.engine.owners(listing, wanted):
                position += 1
                if position > page.offset:
                    yield owner if counts or not owner.count else Owner(owner.value, 0, "", "")
                if position >= page.end:
                    return

    async def _refreshed(self, found: list[MemoryItem], refresh: bool) -> list[MemoryItem]:
        """Return the items, those with a ttl given a new life if that is wanted; what lies in a space keeps its own."""
        if not truth(refresh, "refresh"):
            return found
        bounds = self._bounds(None)
        user = None if bounds is None else bounds.user_id
        own = [item for item in found if user in (None, item.metadata.user_id)]
        expiring = [(item, item.ttl) for item in own if item.ttl is not None]
        if expiring:
            now = self._living.now()
            touch = Change("touch", EVERY_ITEM, [item.id for item, _ in expiring], now=now)
            await self._submit(Write(change=touch))
            for item, ttl in expiring:
                item.__dict__["expires_at"] = end_of_life(now, ttl)
        return found


def _in_order_of(ids: Iterable[str], held: Iterable[MemoryItem], metadata: MemoryMetadata | None) -> list[MemoryItem]:
    found = {item.id: item for item in held if metadata_matches(metadata, item.metadata)}
    return [found[item_id] for item_id in ids if item_id in found]


def _without_records(wanted: Filter) -> Filter:
    """Return the filter of a search: records, such as receipts, are archived, and found by their type alone."""
    asked = [wanted.memory_type] if isinstance(wanted.memory_type, str) else wanted.memory_type or ()
    named = any(each.value in asked or each in wanted.further for each in NO_RECORDS)
    return wanted if wanted.archived is False or named else wanted.also(*NO_RECORDS)
