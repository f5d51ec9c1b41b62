"""LangGraph's long-term store on a memoranda store, and plain tools as tools of LangChain and LangGraph."""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.store.base import (
    BaseStore as LangGraphStore,
)
from langgraph.store.base import (
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from memoranda.errors import CorruptStoreError, InputError, MemoryError
from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.store import Capability, Store
from memoranda.trust import check_trust, trust_of, trusted_as
from memoranda_langgraph.namespaces import HandleScope, Namespace, SplitFilter, each_once, list_namespaces
from memoranda_langgraph.semantic_index import SemanticIndex, pack
from memoranda_langgraph.serializing import is_safe, packed_json, unpacked_json
from memoranda_messages import PlainTool
from memoranda_messages.payload_json import decode_payload, encode_payload
from memoranda_messages.sessions import awaitable_store, blocking, finished, replaced

if TYPE_CHECKING:
    from memoranda.sync import SyncStore


ITEM = "langgraph.item"
"""The type of an item that is put: ``name`` is its key, ``metadata.extra`` its value, ``content`` its indexed text.

A key that observers may take for an address or a number is also stored as the payload, which they leave alone.
"""

VECTORS = "langgraph.vectors"
"""The type of an item's vectors, which are stored beside it and expire with it."""

_OF_VECTORS = ".vectors"
_ITEMS_PER_PAGE = 256
_MINUTE = 60


class MemorandaStore(LangGraphStore):
    """LangGraph's ``BaseStore`` on any memoranda store: an open one, a handle, or one without async.

    - Namespaces are those of memoranda, below the handle's own. A handle, ``store.scoped(user_id="ada")``, keeps its
      items apart from those of others under the same names, and reaches nothing else.
    - ``index`` turns on search by meaning: ``embed``, ``dims``, ``fields``, and ``distance_type`` (``"cosine"``,
      ``"inner_product"`` or ``"l2"``).
    - ``ttl`` is LangGraph's: ``default_ttl`` in minutes, and ``refresh_on_read``, which is on by default. Expired items
      are never returned, and are removed without further calls.
    - ``min_trust`` leaves out of ``get`` and ``search`` what is trusted less, such as what was put through a handle
      with ``trust="external"``.
    - A batch reads first and then writes, all or nothing. If one key is put several times, the last one counts.
    - Results without a query come last changed first. With a query they come nearest first, then those without vectors.
    - Sync methods work in every thread without a running event loop, and raise SyncCallError in one that has one.
    """

    supports_ttl = True

    def __init__(
        self,
        store: Store | SyncStore,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        *,
        min_trust: str | None = None,
    ) -> None:
        super().__init__()
        self._min_trust = None if min_trust is None else check_trust(min_trust, "min_trust")
        self._store = awaitable_store(store).own
        self._scope = HandleScope(self._store)
        self._index = SemanticIndex(index) if index else None
        self.index_config = index
        self.embeddings = self._index.embeddings if self._index else None
        self.ttl_config = ttl
        self.supports_ttl = Capability.TTL in self._store.capabilities

    def __repr__(self) -> str:
        return f"MemorandaStore({self._store!r})"

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results; see :meth:`abatch`."""
        return blocking("batch", lambda: self.abatch(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results in order.

        All are checked before any is run. Raises InvalidNamespaceError for a namespace that LangGraph does not
        allow, InputError for a value that JSON cannot hold.
        """
        operations = list(ops)
        for op in operations:
            if not isinstance(op, (GetOp, PutOp, SearchOp, ListNamespacesOp)):
                raise InputError(f"{type(op).__name__} is not an operation of a store.", field="ops")
            validate_op_namespace(op)
        results: list[Result] = [None] * len(operations)
        await self._get([(at, op) for at, op in enumerate(operations) if isinstance(op, GetOp)], results)
        vectors = await self._query_vectors([op for op in operations if isinstance(op, SearchOp)])
        for at, op in enumerate(operations):
            if isinstance(op, SearchOp):
                results[at] = await self._search(op, vectors.get(op.query or ""))
            elif isinstance(op, ListNamespacesOp):
                results[at] = await list_namespaces(self._store, self._scope, op)
        await finished(self._put([op for op in operations if isinstance(op, PutOp)]))
        return results

    # Reading

    async def _get(self, asked: Sequence[tuple[int, GetOp]], results: list[Result]) -> None:
        if not asked:
            return
        ids = [self._id(tuple(op.namespace), op.key) for _, op in asked]
        found = {item.id: item for item in await self._items(ids)}
        await self._refresh(
            found[item_id] for item_id, (_, op) in zip(ids, asked, strict=True) if item_id in found and op.refresh_ttl
        )
        for item_id, (at, op) in zip(ids, asked, strict=True):
            if item_id in found:
                item = found[item_id]
                results[at] = Item(
                    value=item.metadata.extra,
                    key=op.key,
                    namespace=tuple(op.namespace),
                    created_at=datetime.fromisoformat(item.created_at),
                    updated_at=datetime.fromisoformat(item.updated_at),
                )

    async def _items(self, ids: Sequence[str]) -> list[MemoryItem]:
        if len(ids) == 1:
            item = await self._store.get(ids[0])
            return self._trusted([] if item is None else [item])
        return self._trusted(await self._store.get_many(ids))

    def _trusted(self, items: list[MemoryItem]) -> list[MemoryItem]:
        return items if self._min_trust is None else [item for item in items if trust_of(item) >= self._min_trust]

    async def _query_vectors(self, asked: Sequence[SearchOp]) -> dict[str, array[float]]:
        """Return the vectors of the queries, if there is an index."""
        queries = list(dict.fromkeys([op.query for op in asked if op.query]))
        if self._index is None or not queries:
            return {}
        vectors = await asyncio.gather(*[self._index.query_vector(query) for query in queries])
        return dict(zip(queries, vectors, strict=True))

    async def _search(self, op: SearchOp, query: array[float] | None) -> list[SearchItem]:
        scores: Mapping[str, float] = {}
        if query is None:
            page = await self._newest(op)
        else:
            page, scores = await self._nearest(op, query)
        if op.refresh_ttl:
            await self._refresh(page)
        return [self._found(item, scores.get(item.id) if scores else None) for item in page]

    async def _newest(self, op: SearchOp) -> list[MemoryItem]:
        """Return a page of the items that match, last changed first."""
        split = SplitFilter.of(op.filter)
        if not split.rest:
            return await self._changed(op, split, op.limit, op.offset)
        page: list[MemoryItem] = []
        position = 0
        async for item in self._matching(op, split):
            position += 1
            if position > op.offset + op.limit:
                break
            if position > op.offset:
                page.append(item)
        return page

    async def _changed(self, op: SearchOp, split: SplitFilter, limit: int, offset: int) -> list[MemoryItem]:
        return await self._store.search(
            metadata=self._scope.below(tuple(op.namespace_prefix)),
            memory_type=ITEM,
            where=split.where or None,
            limit=limit,
            offset=offset,
            order="updated",
            min_trust=self._min_trust,
        )

    async def _matching(self, op: SearchOp, split: SplitFilter) -> AsyncIterator[MemoryItem]:
        """Yield the items that pass the whole filter, last changed first."""
        async for page in each_once(partial(self._changed, op, split), _ITEMS_PER_PAGE):
            for item in page:
                if split.passes(item.metadata.extra):
                    yield item

    async def _nearest(self, op: SearchOp, query: array[float]) -> tuple[list[MemoryItem], Mapping[str, float]]:
        """Return a page of the items that match, nearest first, then those without vectors; and all scores."""
        assert self._index is not None
        split = SplitFilter.of(op.filter)
        matching: dict[str, MemoryItem] | None = None
        if split.where or split.rest:
            matching = {item.id: item async for item in self._matching(op, split)}
            ids = [item_id + _OF_VECTORS for item_id in matching]
            vectors = list(map(Payload.of, await self._store.get_many(ids)))
        else:
            below = self._scope.below(tuple(op.namespace_prefix))
            vectors = await self._store.payloads(metadata=below, memory_type=VECTORS)
        if (least := self._min_trust) is not None:
            vectors = [each for each in vectors if trusted_as(VECTORS, each.trust) >= least]
        stored = {each.item_id.removesuffix(_OF_VECTORS): decode_payload(each.text or "null") for each in vectors}
        scores = self._index.best(query, stored)
        end = op.offset + op.limit
        chosen = list(scores)[op.offset : end]
        if matching is not None:
            page = [matching[item_id] for item_id in chosen]
        else:
            page = await self._items(chosen)
        if len(scores) < end:
            others = matching.values() if matching is not None else await self._changed(op, split, len(scores) + end, 0)
            unscored = [item for item in others if item.id not in scores]
            page += unscored[max(0, op.offset - len(scores)) : end - len(scores)]
        return page, scores

    async def _refresh(self, found: Iterable[MemoryItem]) -> None:
        """Renew the lifetime of items and their vectors."""
        expiring = dict.fromkeys([item.id for item in found if item.ttl is not None])
        if expiring:
            await self._store.touch([each for item_id in expiring for each in (item_id, item_id + _OF_VECTORS)])

    def _found(self, item: MemoryItem, score: float | None) -> SearchItem:
        created = changed = datetime.fromisoformat(item.created_at)
        if item.updated_at != item.created_at:
            changed = datetime.fromisoformat(item.updated_at)
        metadata = item.metadata
        return SearchItem(
            namespace=self._scope.relative(metadata.namespace),
            key=_key_of(item),
            value=metadata.extra,
            created_at=created,
            updated_at=changed,
            score=score,
        )

    # Writing

    async def _put(self, asked: Iterable[PutOp]) -> None:
        """Store and delete items, all or nothing. Of several operations on one key, the last one counts."""
        last = {self._id(tuple(op.namespace), op.key): op for op in asked}
        if not last:
            return
        texts = {item_id: self._texts(op) for item_id, op in last.items()}
        vectors: dict[str, array[float]] = {}
        if self._index is not None:
            vectors = await self._index.embedded(text for each in texts.values() for text in each)
        adds: list[MemoryItem] = []
        deletes: list[str] = []
        for item_id, op in last.items():
            if op.value is None:
                deletes.append(item_id)
            else:
                adds.append(self._item(item_id, op, texts[item_id]))
            if texts[item_id]:
                adds.append(_vectors(adds[-1], [vectors[text] for text in texts[item_id]]))
            else:
                deletes.append(item_id + _OF_VECTORS)
        await replaced(self._store, deletes, adds)

    def _texts(self, op: PutOp) -> list[str]:
        if self._index is None or op.value is None:
            return []
        return self._index.texts(op.value, op.index)

    def _item(self, item_id: str, op: PutOp, texts: Sequence[str]) -> MemoryItem:
        if not isinstance(op.value, Mapping):
            raise InputError(f"A value must be a dict, not {type(op.value).__name__}.", field="value")
        return MemoryItem(
            id=item_id,
            content="\n".join(texts),
            memory_type=ITEM,
            name=op.key,
            payload=None if is_safe(op.key) else encode_payload(packed_json(op.key)),
            metadata=MemoryMetadata(namespace=self._scope.base + tuple(op.namespace), extra=dict(op.value)),
            ttl=None if op.ttl is None else op.ttl * _MINUTE,
        )

    def _id(self, namespace: Namespace, key: str) -> str:
        return self._scope.id_of(ITEM, namespace, key)


def _key_of(item: MemoryItem) -> str:
    if item.payload is None:
        return item.name or ""
    try:
        return str(unpacked_json(decode_payload(item.payload)))
    except (AttributeError, TypeError, ValueError) as error:
        raise CorruptStoreError(f"The stored item {item.id!r} cannot be read as LangGraph's.") from error


def _vectors(item: MemoryItem, vectors: Sequence[array[float]]) -> MemoryItem:
    """Return the item that stores the vectors of another one."""
    payload: dict[str, Any] = {"dims": len(vectors[0]), "vectors": pack(vectors)}
    return MemoryItem(
        id=item.id + _OF_VECTORS,
        content="",
        memory_type=VECTORS,
        metadata=MemoryMetadata(namespace=item.metadata.namespace),
        created_at=item.created_at,
        ttl=item.ttl,
        payload=encode_payload(payload),
        payload_format=VECTORS,
    )


def as_tools(tools: Iterable[PlainTool]) -> list[BaseTool]:
    """Return tools for a graph or an agent; they are async. A mistake of the model is answered, not raised."""
    return [
        StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=dict(tool.schema),
            coroutine=_called(tool),
            handle_tool_error=True,
        )
        for tool in tools
    ]


def _called(tool: PlainTool) -> Any:
    async def call(**arguments: Any) -> str:
        try:
            return json.dumps(await tool(**arguments), ensure_ascii=False)
        except MemoryError as error:
            raise ToolException(str(error)) from error

    return call
