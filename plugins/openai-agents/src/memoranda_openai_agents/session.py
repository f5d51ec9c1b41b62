"""A session of the OpenAI Agents SDK in any store.

Every item of the SDK is one memory item of the session, which can be searched, summarised and shown like any other. The
SDK's own dict comes back as it was, as long as it agrees with the memory item: an item that was changed since comes
back changed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from agents.memory import SessionSettings
from agents.memory.session_settings import resolve_session_limit

from memoranda.errors import InputError, VersionConflictError
from memoranda.integrity import linked_by_calls, remnants, shown_together, whole_groups
from memoranda.items import AIMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.offloading import filter_weight, offload
from memoranda.store import EVERYTHING, BaseStore, Capability
from memoranda.tool_calls import call_arguments, call_name
from memoranda.trust import check_trust, trust_of
from memoranda_messages import agrees, from_responses, to_responses
from memoranda_messages.payload_json import decode_payload, encode_payload
from memoranda_openai_agents.settings import ShownLimit, ShownSettings

if TYPE_CHECKING:
    from agents import TResponseInputItem

T = TypeVar("T")

RESPONSES = "responses"
"""The format of a payload that the Responses API knows."""

RAW = "openai-agents"
"""The format of a payload that the Responses API does not know: stored and returned, and used for nothing else."""

_BEFORE = 64
"""How many items before the first one shown are read to find groups that it belongs to."""


class Fence(Protocol):
    """What a session needs of a fence."""

    def apply(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items, oldest first, with those that are not trusted as quoted data."""


class MemorandaSession:
    """A conversation of the Agents SDK: ``MemorandaSession("chat-1", store.scoped(user_id="ada"))``.

    - ``store`` is any open store, or better a handle bound to a user, since a session id does not say whose it is. The
      session never closes it.
    - ``session_settings`` are the SDK's; its ``limit`` applies if :meth:`get_items` is called without one.
    - ``ttl`` is how many seconds an item lives. A group of items is shown until the first of them expires.
    - ``min_trust`` leaves out items that are trusted less, and the calls whose results they are. ``fence``, such as
      ``memoranda_guard.Fence()``, shows what is not trusted as quoted data. Both apply to what :meth:`get_items`
      returns, after the limit.
    - A session can be used from several event loops, as ``Runner.run_sync`` does.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: BaseStore,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        ttl: float | None = None,
        *,
        min_trust: str | None = None,
        fence: Fence | None = None,
    ) -> None:
        self.session_id = session_id
        self._min_trust = None if min_trust is None else check_trust(min_trust, "min_trust")
        self._fence = fence
        self.session_settings = ShownSettings(session_settings)
        self._ttl = ttl
        self._items = store.scoped(session_id=session_id)

    def __repr__(self) -> str:
        return f"MemorandaSession({self.session_id!r}, {self._items!r})"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the conversation, oldest first: all of it, or exactly the newest ``limit`` items.

        Some items belong together, such as a call and its result, or a call and the reasoning that led to it. If one of
        them has expired, the others are no longer part of the conversation. If a runner reads for a model, a group that
        its limit would cut is left out too: a model is never shown half of it.
        """
        most = resolve_session_limit(limit, self.session_settings)
        if most is None or most < 0:
            most = EVERYTHING
        elif isinstance(limit, ShownLimit):
            return _sdk_items(self._trusted(await self._shown(most)))
        items = await self._newest(most)
        if self._ttl is not None or _may_have_ended(items, is_all=len(items) < most):
            whole = items if len(items) < most else await self._newest(EVERYTHING)
            items = await offload(filter_weight(len(whole)), self._unexpired, whole, min(most, len(whole)))
        return await offload(filter_weight(len(items)), _sdk_items, self._trusted(items))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items, all or none. If it raises, even for a cancellation, the write has finished or failed by then."""
        batch = _memories(items, MemoryMetadata(session_id=self.session_id))
        for together in shown_together(batch):
            group = next((batch[at].group for at in together if batch[at].group), None) or uuid.uuid4().hex
            for at in together:
                batch[at].group, batch[at].group_size = group, len(together)
        await _finished(self._items.add_many(batch, ttl=self._ttl))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item, for good if the store can. Concurrent callers get different items."""
        purge = Capability.PURGE in self._items.capabilities
        popped = await _finished(self._pop(purge=purge))
        return None if popped is None else _single_sdk_item(popped)

    async def clear_session(self) -> None:
        """Remove every item of the session, for good if the store can."""
        if Capability.PURGE in self._items.capabilities:
            await _finished(self._items.purge())
        else:
            await _finished(self._items.clear())

    async def _pop(self, *, purge: bool) -> MemoryItem | None:
        """Remove the newest item, and shrink its group: the others are not left over from an expired item."""
        popped = await self._items.pop(purge=purge)
        while popped is not None and popped.group_size:
            items = await self._newest(EVERYTHING)
            left = [item for item in items if item.group_size and item.group == popped.group]
            for item in left:
                item.group_size = None
            try:
                await self._items.update_many(left)
            except VersionConflictError:
                continue  # Another process removed one of them.
            break
        return popped

    def _trusted(self, items: list[MemoryItem]) -> list[MemoryItem]:
        """Return the items that are trusted enough, with those that are not quite between fences."""
        if self._min_trust is not None:
            items = whole_groups([item for item in items if trust_of(item) >= self._min_trust])
        return items if self._fence is None else self._fence.apply(items)

    def _unexpired(self, items: Sequence[MemoryItem], most: int) -> list[MemoryItem]:
        """Return the newest items of a whole conversation, without the rest of groups that have expired in part."""
        lasting = _without(items, self._left(items, is_all=True))
        return lasting[max(len(lasting) - most, 0) :]

    def _left(self, items: Sequence[MemoryItem], *, is_all: bool) -> set[int]:
        """Return the positions of items whose group has expired in part, or begins before what was read."""
        left = remnants(items)
        if self._ttl is not None or (is_all and left) or any(item.expires_at is not None for item in items):
            left |= _unpaired(items)
        return left

    async def _newest(self, most: int) -> list[MemoryItem]:
        """Return the newest items, oldest first."""
        found = await self._items.search(mode="substring", limit=min(most, EVERYTHING), order="added")
        return found[::-1]

    async def _shown(self, most: int) -> list[MemoryItem]:
        """Return those of the newest items that a model can be shown without earlier ones."""
        items = await self._newest(most + _BEFORE)
        is_all = len(items) < most + _BEFORE
        hidden = {*range(len(items) - most), *self._left(items, is_all=is_all)}
        if not is_all:
            hidden |= linked_by_calls(items).orphans  # Their calls may lie further back, or nowhere.
        return _without(items, hidden)


def _unpaired(items: Sequence[MemoryItem]) -> set[int]:
    """Return the positions of results without a call, and of calls whose result can no longer come."""
    linked = linked_by_calls(items)
    last = max([at for at, item in enumerate(items) if item.memory_type == "human"], default=0)
    return linked.orphans | {at for at, count in linked.missing.items() if count and at < last}


def _without(items: Sequence[MemoryItem], hidden: set[int]) -> list[MemoryItem]:
    """Return the items without these and their groups."""
    for together in shown_together(items) if hidden else ():
        if not hidden.isdisjoint(together):
            hidden.update(together)
    return [item for position, item in enumerate(items) if position not in hidden]


def _may_have_ended(items: Sequence[MemoryItem], *, is_all: bool) -> bool:
    """Return True if part of a session may have expired: an item has a lifetime, or a group lacks an item.

    A limit cuts groups as well, so the latter counts only if ``is_all`` of the session is given.
    """
    return any(item.expires_at for item in items) or (is_all and bool(remnants(items)))


def _memories(given: Sequence[Any], metadata: MemoryMetadata) -> list[MemoryItem]:
    """Return the SDK's items as memory items that hold them unchanged, including those that the API does not know."""
    try:
        items = from_responses(given, metadata=metadata)
        known = [True] * len(items)
    except InputError:
        known = [_is_known(one) for one in given]
        # All at once, since only together do they show which items form a group.
        read = iter(from_responses(compress(given, known), metadata=metadata))
        items = [next(read) if is_known else _raw(one, metadata) for one, is_known in zip(given, known, strict=True)]
    return [
        _holding(one, item, RESPONSES if is_known else RAW)
        for one, item, is_known in zip(given, items, known, strict=True)
    ]


def _holding(given: Any, item: MemoryItem, in_format: str) -> MemoryItem:
    """Return the memory item with the SDK's dict as its payload, and with the ids of its calls."""
    item.payload, item.payload_format = encode_payload(given), in_format
    if in_format == RESPONSES and _original(item) is None:
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


def _sdk_items(items: Sequence[MemoryItem]) -> list[TResponseInputItem]:
    """Return memory items as the SDK's own dicts.

    If one came another way or was changed since, all are converted to the format of the Responses API.
    """
    found = [_original(item) for item in items]
    return cast("list[TResponseInputItem]", to_responses(items) if None in found else found)


def _single_sdk_item(item: MemoryItem) -> TResponseInputItem:
    """Return one memory item as the SDK's dict, or made from its fields; a call or a result may come alone."""
    if found := _sdk_items([item]):
        return found[-1]
    alone: dict[str, Any] = {"role": "assistant" if item.memory_type == "ai" else "user", "content": item.content}
    if isinstance(item, ToolMemory):
        alone = {"type": "function_call_output", "call_id": item.tool_call_id, "output": item.content}
    elif isinstance(item, AIMemory) and item.tool_calls:
        call = item.tool_calls[-1]
        alone = {"type": "function_call", "call_id": call["id"], "name": call_name(call)}
        alone["arguments"] = call_arguments(call)
    return cast("TResponseInputItem", alone)


def _original(item: MemoryItem) -> Any:
    """Return the SDK's own dict, or None if it no longer agrees with the memory item."""
    if item.payload is None or item.payload_format not in (RAW, RESPONSES):
        return None
    given = decode_payload(item.payload)
    try:
        (read,) = from_responses([given])
    except InputError:
        fields: dict[str, Any] = {"memory_type": _raw_type(given), "content": "", "provider_parts": [RAW]}
    else:
        fields = {name: getattr(read, name, None) for name in _COMPARED}
    return (
        given if agrees(item, {name: value for name, value in fields.items() if value or name == "content"}) else None
    )


_COMPARED = ("memory_type", "content", "name", "tool_calls", "tool_call_id", "tool_name", "is_error", "provider_parts")


async def _finished(change: Coroutine[Any, Any, T]) -> T:
    """Return the result of a change. If the caller is cancelled meanwhile, this is raised once the change is done."""
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()  # Marks it as retrieved: the caller gets the cancellation instead.
        raise cancelled
    return task.result()
