"""LangGraph's checkpointer on a memoranda store."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from memoranda.errors import InputError
from memoranda_langgraph.records import delta_history
from memoranda_langgraph.serializing import CheckpointSerializer
from memoranda_langgraph.threads import Threads
from memoranda_messages.sessions import awaitable_store, blocking, finished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memoranda.store import Store
    from memoranda.sync import SyncStore


class MemorandaSaver(BaseCheckpointSaver[str]):
    """LangGraph's ``BaseCheckpointSaver`` on any memoranda store: an open one, a handle, or one without async.

    - A handle, ``store.scoped(user_id="ada")``, keeps its threads apart from those of others, whatever their ids.
    - When ``put`` or ``put_writes`` returns, the data is stored as durably as the store promises.
    - Sync methods work in every thread without a running event loop, and raise SyncCallError in one that has one.
    - Values are read if their types are known to be safe or are among ``allowed_types``; others raise RefusedTypeError
      (see CheckpointSerializer). A ``serde`` of your own makes its own rules.
    """

    def __init__(
        self,
        store: Store | SyncStore,
        *,
        serde: SerializerProtocol | None = None,
        allowed_types: Iterable[type | tuple[str, str]] = (),
    ) -> None:
        if serde is not None and allowed_types:
            raise InputError(
                "allowed_types configures memoranda's serializer, and a serde of your own has its own rules. Give only "
                "one of the two.",
                field="allowed_types",
            )
        super().__init__(serde=serde or CheckpointSerializer(allowed_types))
        self._store = awaitable_store(store).own
        self._threads = Threads(self._store)

    def __repr__(self) -> str:
        return f"MemorandaSaver({self._store!r})"

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a configuration names, or the latest one of its thread; None if there is none."""
        return await self._threads.get(self.serde, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints that match, newest first."""
        async for page in self._threads.pages(self.serde, config, filter or {}, before, limit):
            for found in page:
                yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint and return the configuration that names it."""
        return await finished(self._threads.put(self.serde, config, checkpoint, metadata))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint, all or nothing.

        A write that is already stored stays as it is, except for errors, interrupts and the like: the last counts.
        """
        await finished(self._threads.put_writes(self.serde, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove all of a thread for good."""
        await finished(self._threads.delete([str(thread_id)]))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs for good, with their writes."""
        await finished(self._threads.delete_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread to another, all or nothing."""
        await finished(self._threads.copy(str(source_thread_id), str(target_thread_id)))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all checkpoints of threads, or all but the latest of each namespace (``"keep_latest"``, the default).

        If a checkpoint stores only the changes of a channel, the earlier ones that complete it stay. Raises ValueError
        for a strategy that does not exist.
        """
        await finished(self._threads.prune(self.serde, thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to channels before a checkpoint, and the last value that was stored in full."""
        return await delta_history(self.aget_tuple, config, channels)

    # Sync methods

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a configuration names; see :meth:`aget_tuple`."""
        return blocking("get_tuple", lambda: self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints that match; see :meth:`alist`."""
        pages = self._threads.pages(self.serde, config, filter or {}, before, limit)

        async def following() -> Sequence[CheckpointTuple]:
            return await anext(pages, [])

        while page := blocking("list", following):
            yield from page

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; see :meth:`aput`."""
        return blocking("put", lambda: self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote; see :meth:`aput_writes`."""
        blocking("put_writes", lambda: self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Remove all of a thread for good."""
        blocking("delete_thread", lambda: self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs for good; see :meth:`adelete_for_runs`."""
        blocking("delete_for_runs", lambda: self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all of a thread to another; see :meth:`acopy_thread`."""
        blocking("copy_thread", lambda: self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove old checkpoints; see :meth:`aprune`."""
        blocking("prune", lambda: self.aprune(thread_ids, strategy=strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what led to the channels' values; see :meth:`aget_delta_channel_history`."""
        return blocking(
            "get_delta_channel_history", lambda: self.aget_delta_channel_history(config=config, channels=channels)
        )

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Return the next version: a number, followed by a random part that tells two writers apart."""
        number = current if isinstance(current, int) else int((current or "0").partition(".")[0])
        return f"{number + 1:032}.{random.random():016}"
