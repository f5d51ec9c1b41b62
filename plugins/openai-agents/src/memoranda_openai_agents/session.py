"""A session of the OpenAI Agents SDK in any store.

Every item of the SDK is one memory item of the session: what people, the model and tools said can be searched,
summarised and shown like any other. The SDK's own dict comes back as it was, as long as it says what the memory item
says: an item that was changed since comes back changed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agents.memory import SessionSettings
from agents.memory.session_settings import resolve_session_limit

from memoranda.errors import InputError, VersionConflictError
from memoranda.integrity import linked_by_calls, remnants, shown_together
from memoranda.items import AIMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.offloading import filter_weight, offload
from memoranda.store import EVERYTHING, BaseStore, Capability
from memoranda.tool_calls import call_arguments, call_name
from memoranda_messages import agrees, from_responses, to_responses
from memoranda_messages.payload_json import decode_payload, encode_payload
from memoranda_openai_agents.settings import ShownLimit, ShownSettings

if TYPE_CHECKING:
    from agents import TResponseInputItem

T = TypeVar("T")

RESPONSES = "responses"
"""The format of a payload that the Responses API knows."""

RAW = "openai-agents"
"""The format of a payload that the Responses API does not know: kept and given back, and shown to nobody else."""

_BEFORE = 64
"""How many items before the first that is shown are looked at for what belongs together with it."""


class MemorandaSession:
    """A conversation of the Agents SDK: ``MemorandaSession("chat-1", store.scoped(user_id="ada"))``.

    ``store`` is any store, or better a handle of one user's: a session id alone does not say whose it is. It must be
    open, and stays open when the session is done with. ``session_settings`` are the SDK's; its ``limit`` holds where
    :meth:`get_items` is called without one. ``ttl`` is how many seconds an item lives; what belongs together is shown
    until the first of it ends. A session can be used from several event loops, as ``Runner.run_sync`` does.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: BaseStore,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        ttl: float | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = ShownSettings(session_settings)
        self._ttl = ttl
        self._items = store.scoped(session_id=session_id)

    def __repr__(self) -> str:
        return f"MemorandaSession({self.session_id!r}, {self._items!r})"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the conversation, oldest first: all of it, or exactly the newest ``limit`` items.

        Where some of what belongs together has ended, such as a call and its result or a call and the reasoning that
        led to it, the rest of that is not part of the conversation any more. Where a runner reads for a model, what its
        limit cuts through is left out, too: a model is never shown half of it.
        """
        most = resolve_session_limit(limit, self.session_settings)
        if most is None or most < 0:
            most = EVERYTHING
        elif isinstance(limit, ShownLimit):
            return _given(await self._shown(most))
        said = await self._newest(most)
        if self._ttl is not None or _may_have_ended(said, is_all=len(said) < most):
            whole = said if len(said) < most else await self._newest(EVERYTHING)
            said = await offload(filter_weight(len(whole)), self._lasting, whole, min(most, len(whole)))
        return await offload(filter_weight(len(said)), _given, said)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items, all or none. When it raises, a cancellation included, that has been decided."""
        batch = _memories(items, MemoryMetadata(session_id=self.session_id))
        for together in shown_together(batch):
            group = next((batch[at].group for at in together if batch[at].group), None) or uuid.uuid4().hex
            for at in together:
                batch[at].group, batch[at].group_size = group, len(together)
        await _decided(self._items.add_many(batch, ttl=self._ttl))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item, for good where the store can; each once, however many ask."""
        purge = Capability.PURGE in self._items.capabilities
        popped = await _decided(self._pop(purge=purge))
        return None if popped is None else _given_alone(popped)

    async def clear_session(self) -> None:
        """Remove every item of the session, for good where the store can."""
        if Capability.PURGE in self._items.capabilities:
            await _decided(self._items.purge())
        else:
            await _decided(self._items.clear())

    async def _pop(self, *, purge: bool) -> MemoryItem | None:
        """Take the newest item out; what it belonged to is meant to be without it, and has not lost it."""
        popped = await self._items.pop(purge=purge)
        while popped is not None and popped.group_size:
            said = await self._newest(EVERYTHING)
            left = [item for item in said if item.group_size and item.group == popped.group]
            for item in left:
                item.group_size = None
            try:
                await self._items.update_many(left)
            except VersionConflictError:
                continue  # Somebody else took one of them.
            break
        return popped

    def _lasting(self, said: Sequence[MemoryItem], most: int) -> list[MemoryItem]:
        """Return the newest items of a whole conversation without what is left where something has ended."""
        lasting = _without(said, self._left(said, is_all=True))
        return lasting[max(len(lasting) - most, 0) :]

    def _left(self, said: Sequence[MemoryItem], *, is_all: bool) -> set[int]:
        """Return the positions of what is left where something has ended, or lies before what was read."""
        left = remnants(said)
        if self._ttl is not None or (is_all and left) or any(item.expires_at is not None for item in said):
            left |= _unpaired(said)
        return left

    async def _newest(self, most: int) -> list[MemoryItem]:
        """Return the newest items, oldest first."""
        found = await self._items.search(mode="substring", limit=min(most, EVERYTHING), order="added")
        return found[::-1]

    async def _shown(self, most: int) -> list[MemoryItem]:
        """Return of the newest items those that a model can be shown without what came before them."""
        said = await self._newest(most + _BEFORE)
        is_all = len(said) < most + _BEFORE
        hidden = {*range(len(said) - most), *self._left(said, is_all=is_all)}
        if not is_all:
            hidden |= linked_by_calls(said).orphans  # Their calls may lie further back, or nowhere.
        return _without(said, hidden)


def _unpaired(said: Sequence[MemoryItem]) -> set[int]:
    """Return the positions of results without a call, and of calls without a result that does not come any more."""
    linked = linked_by_calls(said)
    last = max([at for at, item in enumerate(said) if item.memory_type == "human"], default=0)
    return linked.orphans | {at for at, count in linked.missing.items() if count and at < last}


def _without(said: Sequence[MemoryItem], hidden: set[int]) -> list[MemoryItem]:
    """Return the items without these and what belongs together with them."""
    for together in shown_together(said) if hidden else ():
        if not hidden.isdisjoint(together):
            hidden.update(together)
    return [item for position, item in enumerate(said) if position not in hidden]


def _may_have_ended(said: Sequence[MemoryItem], *, is_all: bool) -> bool:
    """Return whether some of a session may have ended: an item expires, or a group lacks one of its items.

    A limit cuts through groups as well, so that the latter tells only where ``is_all`` of a session is given.
    """
    return any(item.expires_at for item in said) or (is_all and bool(remnants(said)))


def _memories(given: Sequence[Any], metadata: MemoryMetadata) -> list[MemoryItem]:
    """Return the SDK's items as memory items that hold them as they are, those too that the API does not know."""
    try:
        items = from_responses(given, metadata=metadata)
        known = [True] * len(items)
    except InputError:
        known = [_is_known(one) for one in given]
        # Together, since what belongs together shows only there.
        read = iter(from_responses(compress(given, known), metadata=metadata))
        items = [next(read) if is_known else _raw(one, metadata) for one, is_known in zip(given, known, strict=True)]
    return [
        _holding(one, item, RESPONSES if is_known else RAW)
        for one, item, is_known in zip(given, items, known, strict=True)
    ]


def _holding(given: Any, item: MemoryItem, in_format: str) -> MemoryItem:
    """Return the memory item with what the SDK gave, under the ids that its calls have there."""
    item.payload, item.payload_format = encode_payload(given), in_format
    if in_format == RESPONSES and _as_it_was(item) is None:
        (alone,) = from_responses([given], metadata=item.metadata)
        return alone.model_copy(update={"group": item.group, "payload": item.payload, "payload_format": in_format})
    return item


def _is_known(given: Any) -> bool:
    try:
        from_responses([given])
    except InputError:
        return False
    return True


def _raw(given: Any, metadata: MemoryMetadata) -> MemoryItem:
    held: dict[str, Any] = {"content": "", "metadata": metadata, "provider_parts": [RAW]}
    return SystemMemory(**held) if _raw_type(given) == "system" else MemoryItem(**held)


def _raw_type(given: Any) -> str:
    """Return the type of what the API does not know: nothing instructs a model but items of the type ``system``."""
    role = given.get("role") if isinstance(given, dict) else None
    return "system" if role in ("system", "developer") else "item"


def _given(items: Sequence[MemoryItem]) -> list[TResponseInputItem]:
    """Return memory items as the SDK gave them.

    Where one came another way, or was changed since, all are written as the Responses API wants them.
    """
    found = [_as_it_was(item) for item in items]
    return cast("list[TResponseInputItem]", to_responses(items) if None in found else found)


def _given_alone(item: MemoryItem) -> TResponseInputItem:
    """Return one memory item as the SDK gave it, or by its fields; a call and a result need not be whole."""
    if found := _given([item]):
        return found[-1]
    alone: dict[str, Any] = {"role": "assistant" if item.memory_type == "ai" else "user", "content": item.content}
    if isinstance(item, ToolMemory):
        alone = {"type": "function_call_output", "call_id": item.tool_call_id, "output": item.content}
    elif isinstance(item, AIMemory) and item.tool_calls:
        call = item.tool_calls[-1]
        alone = {"type": "function_call", "call_id": call["id"], "name": call_name(call)}
        alone["arguments"] = call_arguments(call)
    return cast("TResponseInputItem", alone)


def _as_it_was(item: MemoryItem) -> Any:
    """Return the item that the SDK gave, or None if it does not say what the memory item says."""
    if item.payload is None or item.payload_format not in (RAW, RESPONSES):
        return None
    given = decode_payload(item.payload)
    try:
        (read,) = from_responses([given])
    except InputError:
        said: dict[str, Any] = {"memory_type": _raw_type(given), "content": "", "provider_parts": [RAW]}
    else:
        said = {name: getattr(read, name, None) for name in _SAID}
    return given if agrees(item, {name: value for name, value in said.items() if value or name == "content"}) else None


_SAID = ("memory_type", "content", "name", "tool_calls", "tool_call_id", "tool_name", "is_error", "provider_parts")


async def _decided(change: Coroutine[Any, Any, T]) -> T:
    """Return what a change returns; a caller who is cancelled meanwhile hears of it once that is decided."""
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()  # It was looked at: the cancellation is what the caller hears.
        raise cancelled
    return task.result()
