"""The threads of a checkpointer in a store.

A checkpoint with all that it holds is one item, and so is each write. ``session_id`` is the thread's, with a prefix
that no other conversation has. ``task_id`` groups what is read together: the checkpoints of a namespace, and the writes
of a checkpoint. Stores have an index on both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Capability, Store
from memoranda.store.backend import json_equal
from memoranda.store.records import writing_records
from memoranda_langgraph.namespaces import HandleScope, each_once, found_at
from memoranda_langgraph.records import (
    CHECKPOINT,
    WRITE,
    CheckpointKey,
    WriteKey,
    as_tuple,
    conditions,
    encoded,
    filterable,
    needed_checkpoints,
    time_of,
)
from memoranda_langgraph.serializing import comparable
from memoranda_messages.sessions import replaced, retry_conflicts

STRATEGIES = ("keep_latest", "delete")
_CHECKPOINTS_PER_PAGE = 50


class Threads:
    """Reads and writes the threads of a checkpointer through one handle."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scope = HandleScope(store)
        if self._scope.scope.session_id is not None or self._scope.scope.task_id is not None:
            raise InputError(
                "A checkpointer uses sessions and tasks of its own. Give it a handle that binds only a user, an agent "
                "or a namespace.",
                field="store",
            )

    # Reading

    async def get(self, serde: SerializerProtocol, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its writes."""
        key = CheckpointKey.of(config)
        if key.checkpoint is not None:
            item = await self._store.get(self._checkpoint_id(key))
        else:
            newest = await self._store.search(metadata=self._namespace(key), memory_type=CHECKPOINT, limit=1)
            item = newest[0] if newest else None
        if item is None:
            return None
        return as_tuple(serde, item, await self._writes_of(item.id))

    async def pages(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any],
        before: RunnableConfig | None,
        limit: int | None,
    ) -> AsyncIterator[list[CheckpointTuple]]:
        """Yield the checkpoints that match in pages, newest first."""
        left = EVERYTHING if limit is None else limit
        where, rest = conditions(wanted)
        metadata = self._reach(config, where, before)

        def search(size: int, offset: int) -> Awaitable[list[MemoryItem]]:
            return self._store.search(
                metadata=metadata, memory_type=CHECKPOINT, where=where or None, limit=size, offset=offset
            )

        size = _CHECKPOINTS_PER_PAGE if rest else min(left, _CHECKPOINTS_PER_PAGE)
        async for items in each_once(search, size):
            asked = items if rest else items[:left]
            page = [found for found in await self._tuples(serde, asked) if _passes(found, rest)][:left]
            left -= len(page)
            if page:
                yield page
            if not left:
                return

    def _reach(
        self, config: RunnableConfig | None, where: dict[str, Any], before: RunnableConfig | None
    ) -> MemoryMetadata | None:
        """Return the scope of a listing, and add its conditions to ``where``."""
        if before is not None and (earlier := (before.get("configurable") or {}).get("checkpoint_id")):
            where["extra.checkpoint_id"] = {"$lt": comparable(str(earlier))}
        if config is None:
            return None
        key = CheckpointKey.of(config)
        if key.checkpoint is not None:
            where.setdefault("extra.checkpoint_id", {})["$eq"] = comparable(key.checkpoint)
        if (config.get("configurable") or {}).get("checkpoint_ns") is None:
            return self._session(key.thread)
        return self._namespace(key)

    async def _tuples(self, serde: SerializerProtocol, items: Sequence[MemoryItem]) -> list[CheckpointTuple]:
        """Return checkpoints with their writes, read with one search for each thread."""
        writes: dict[str, list[MemoryItem]] = {item.id: [] for item in items}
        for session in dict.fromkeys([item.metadata.session_id for item in items]):
            ids = [item.id for item in items if item.metadata.session_id == session]
            found = await self._store.search(
                metadata=MemoryMetadata(session_id=session),
                memory_type=WRITE,
                where={"task_id": {"$in": ids}},
                limit=EVERYTHING,
            )
            for write in found:
                writes[write.metadata.task_id or ""].append(write)
        return [as_tuple(serde, item, writes[item.id]) for item in items]

    async def _writes_of(self, checkpoint_id: str) -> list[MemoryItem]:
        return await self._store.search(
            metadata=MemoryMetadata(task_id=checkpoint_id), memory_type=WRITE, limit=EVERYTHING
        )

    # Writing

    async def put(
        self, serde: SerializerProtocol, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        """Store a checkpoint."""
        before = CheckpointKey.of(config)
        key = before._replace(checkpoint=str(checkpoint["id"]), parent=before.checkpoint)
        all_metadata = get_checkpoint_metadata(config, metadata)
        time = time_of(checkpoint)
        item = MemoryItem(
            id=self._checkpoint_id(key),
            content="",
            memory_type=CHECKPOINT,
            metadata=self._owner(key, self._namespace_id(key), key.extra | filterable({**all_metadata})),
            created_at=time,
            payload=encoded(serde, {"checkpoint": checkpoint, "metadata": all_metadata}),
            payload_format=CHECKPOINT,
        )
        with writing_records(CHECKPOINT):
            await self._store.add(item)
        return key.config

    async def put_writes(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        """Store writes, all or nothing. Writes that another process stores at the same time are not overwritten."""
        key = CheckpointKey.of(config)
        if key.checkpoint is None:
            raise InputError(
                "Writes need a checkpoint: the configuration has no checkpoint_id.",
                field="checkpoint_id",
            )
        items: dict[str, MemoryItem] = {}
        keys: dict[str, WriteKey] = {}
        for position, (channel, value) in enumerate(writes):
            write_key = WriteKey(task_path, task_id, WRITES_IDX_MAP.get(channel, position), channel)
            item_id = self._write_id(key, write_key)
            keys[item_id] = write_key
            items[item_id] = MemoryItem(
                id=item_id,
                content="",
                memory_type=WRITE,
                metadata=self._owner(key, self._checkpoint_id(key), key.extra | write_key.extra),
                payload=encoded(serde, {"value": value}),
                payload_format=WRITE,
            )

        async def write() -> None:
            there = {item.id: item.version for item in await self._store.get_many(list(items))}
            for item in items.values():
                item.version = there.get(item.id, 0)
            fresh = [item for item in items.values() if item.id not in there or keys[item.id].position < 0]
            with writing_records(WRITE):
                await self._store.update_many(fresh)

        await retry_conflicts(write)

    # Removing and copying

    async def delete(self, threads: Iterable[str]) -> None:
        """Remove threads for good."""
        for thread in threads:
            purges = Capability.PURGE in self._store.capabilities
            await (self._store.purge if purges else self._store.clear)(metadata=self._session(thread))

    async def delete_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs for good, with their writes."""
        if not run_ids:
            return
        runs = {"extra.metadata.run_id": {"$in": [comparable(str(run_id)) for run_id in run_ids]}}
        ids = [item.id async for item in self._store.scan(memory_type=CHECKPOINT, where=runs)]
        for item_id in list(ids):
            ids += [write.id for write in await self._writes_of(item_id)]
        await replaced(self._store, ids)

    async def copy(self, source: str, target: str) -> None:
        """Copy a thread, all or nothing."""
        copies = []
        async for item in self._store.scan(metadata=self._session(source), order="added"):
            key = CheckpointKey.at(item)._replace(thread=target)
            if item.memory_type == CHECKPOINT:
                item.id, group = self._checkpoint_id(key), self._namespace_id(key)
            else:
                item.id, group = self._write_id(key, WriteKey.at(item)), self._checkpoint_id(key)
            item.metadata = self._owner(key, group, item.metadata.extra | key.extra)
            copies.append(item)
        with writing_records(CHECKPOINT, WRITE):
            await self._store.add_many(copies)

    async def prune(self, serde: SerializerProtocol, threads: Sequence[str], strategy: str) -> None:
        """Remove what a strategy does not keep."""
        if isinstance(threads, str):
            raise TypeError("thread_ids must be a list of ids, not a single text.")
        if strategy not in STRATEGIES:
            raise InputError(
                f"{str(strategy)[:20]!r} is not a strategy. Use {' or '.join(STRATEGIES)}.", field="strategy"
            )
        if strategy == "delete":
            await self.delete(map(str, threads))
            return
        for thread in map(str, threads):
            await self._keep_latest(serde, thread)

    async def _keep_latest(self, serde: SerializerProtocol, thread: str) -> None:
        namespaces: dict[str, list[MemoryItem]] = {}
        writes: list[MemoryItem] = []
        async for item in self._store.scan(metadata=self._session(thread)):
            if item.memory_type == CHECKPOINT:
                namespaces.setdefault(item.metadata.task_id or "", []).append(item)
            else:
                writes.append(item)
        kept = [needed_checkpoints(serde, items) for items in namespaces.values()]
        ids = {item.id for items in kept for item in items}
        gone = [item.id for items in namespaces.values() for item in items if item.id not in ids]
        gone += [write.id for write in writes if write.metadata.task_id not in ids]
        if gone:
            orphans = [_without_parent(items[-1]) for items in kept if CheckpointKey.at(items[-1]).parent]
            with writing_records(CHECKPOINT):
                await replaced(self._store, gone, orphans)

    # Ids and scopes

    def _session(self, thread: str) -> MemoryMetadata:
        return MemoryMetadata(session_id=f"langgraph:{thread}")

    def _namespace(self, key: CheckpointKey) -> MemoryMetadata:
        return MemoryMetadata(task_id=self._namespace_id(key))

    def _namespace_id(self, key: CheckpointKey) -> str:
        return self._scope.id_of("lane", (), key.thread, key.namespace)

    def _checkpoint_id(self, key: CheckpointKey) -> str:
        return self._scope.id_of(CHECKPOINT, (), key.thread, key.namespace, key.checkpoint or "")

    def _write_id(self, key: CheckpointKey, write_key: WriteKey) -> str:
        within = (key.thread, key.namespace, key.checkpoint or "")
        return self._scope.id_of(WRITE, (), *within, write_key.task_id, write_key.position)

    def _owner(self, key: CheckpointKey, group: str, extra: dict[str, Any]) -> MemoryMetadata:
        return MemoryMetadata(session_id=f"langgraph:{key.thread}", task_id=group, extra=extra)


def _passes(found: CheckpointTuple, rest: Mapping[str, Any]) -> bool:
    return all(_is_equal(found_at({**found.metadata}, name), value) for name, value in rest.items())


def _is_equal(found: Any, wanted: Any) -> bool:
    return json_equal(found, wanted) or bool(type(found) is type(wanted) and found == wanted)


def _without_parent(item: MemoryItem) -> MemoryItem:
    extra = item.metadata.extra | CheckpointKey.at(item)._replace(parent=None).extra
    item.metadata = item.metadata.model_copy(update={"extra": extra})
    return item
