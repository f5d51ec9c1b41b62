"""Short-term memory: a conversation, filtered by scope and cut to what a model may be shown."""

from __future__ import annotations

from recollect.errors import InputError, MemoryError
from recollect.in_memory import InMemoryStore
from recollect.integrity import whole_groups
from recollect.items import MemoryItem, MemoryMetadata, MemoryStatus
from recollect.query import check_limit, names_nothing
from recollect.records import SCOPE_FIELDS
from recollect.store import EVERYTHING, SearchMode
from recollect.windowing import check_rounds, last_rounds, newest

SCOPES: dict[str, tuple[str, ...]] = {
    "user": ("user_id", "agent_id"),
    "session": ("user_id", "session_id", "agent_id"),
    "task": ("user_id", "session_id", "task_id", "agent_id"),
}
"""The fields of a metadata filter that each scope matches on."""


class ShortTermMemory(InMemoryStore):
    """An in-memory conversation whose :meth:`search` returns what a model may be shown, oldest first.

    ``scope`` says how broadly a metadata filter matches: ``"user"``, ``"session"`` or ``"task"``. ``max_rounds`` keeps
    only the last rounds; 0 keeps all. Raises MemoryError for any other scope.
    """

    def __init__(self, *, scope: str = "task", max_rounds: int = 0) -> None:
        if scope not in SCOPES:
            raise MemoryError(f"{scope!r} is no scope; there are {', '.join(SCOPES)}.")
        super().__init__()
        self.scope = scope
        self.max_rounds = check_rounds(max_rounds)

    def __repr__(self) -> str:
        return f"ShortTermMemory(scope={self.scope!r}, max_rounds={self.max_rounds}, items={len(self)})"

    async def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: str | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
    ) -> list[MemoryItem]:
        """Return the conversation that matches, oldest first, as a model may be shown it.

        Filters come first (of ``metadata``, only the fields of the scope and ``extra``), then the keyword, then the
        last ``max_rounds`` rounds, then the limit, which keeps the newest items but never drops a system item for
        another; last, tool calls without all their results and results without their call are taken out, so that
        fewer than ``limit`` items may be left. A filter by ``memory_type`` asks for a listing of those records, not for
        a conversation: the limit then keeps simply the newest, and tool calls and results are not paired. With a ranked
        ``mode`` the result is a listing too, best first.

        Raises InputError when ``metadata`` names only fields that the scope ignores: the filter would be widened to
        everything.
        """
        metadata = self._in_scope(metadata)
        check_limit(limit)
        if mode not in (None, "substring"):
            return await super().search(
                query=query, metadata=metadata, memory_type=memory_type, status=status, limit=limit, mode=mode
            )
        found = await super().search(
            query=query,
            metadata=metadata,
            memory_type=memory_type,
            status=status,
            limit=EVERYTHING,
            mode=mode,
        )
        found.reverse()
        if self.max_rounds:
            found = last_rounds(found, self.max_rounds)
        if memory_type is not None:
            return found[-limit:] if limit else []
        return whole_groups(newest(found, limit))

    async def clear(self, *, metadata: MemoryMetadata | None = None) -> int:
        """Remove the items that match and return how many; without a filter, all of them.

        Removing is never broader than what was named: fields that the scope ignores for reading still narrow it here.
        """
        self._in_scope(metadata)
        return await super().clear(metadata=metadata)

    def _in_scope(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return the filter with only the fields that the scope matches on."""
        if metadata is None or not isinstance(metadata, MemoryMetadata):
            return metadata
        fields = {name: getattr(metadata, name) for name in SCOPES[self.scope]}
        narrowed = MemoryMetadata(**fields, extra=metadata.extra)
        if names_nothing(narrowed) and not names_nothing(metadata):
            given = ", ".join(name for name in SCOPE_FIELDS if getattr(metadata, name) is not None)
            used = ", ".join(SCOPES[self.scope])
            raise InputError(
                f"The scope {self.scope!r} matches on {used} and would ignore {given}, the only filter given. Name one "
                f"of the fields it uses, or choose another scope.",
                field="metadata",
            )
        return narrowed
