"""Memories as resources, which clients list and read, and prompts that a person can choose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from memoranda.errors import InputError, MemoryError
from memoranda.items import MemoryItem
from memoranda_context import ContextManager
from memoranda_guard import Fence
from memoranda_mcp.memory import (
    CONVERSATION,
    GRAPH,
    ITEM,
    JSON,
    MOST_SHOWN,
    RECENT,
    address,
    after,
    decoded,
    encoded,
    is_position,
)
from memoranda_messages.prompts import one_line

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

    from memoranda_mcp.memory import ScopedMemory
    from memoranda_mcp.subscriptions import Subscriptions

RequestContext = ServerRequestContext[Any, Any]

PAGE = 50


@contextmanager
def protocol_errors(uri: str | None = None) -> Iterator[None]:
    """Turn an error of a store in the block into an error of the protocol."""
    try:
        yield
    except InputError as error:
        raise MCPError(types.INVALID_PARAMS, str(error), data=None if uri is None else {"uri": uri}) from None
    except MemoryError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from None


class Resources:
    """Answers the requests about resources."""

    def __init__(self, find_memory: Callable[[RequestContext], ScopedMemory]) -> None:
        self._find_memory = find_memory

    async def listed(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List the newest memories, then the conversations, then all memories, in pages."""
        memory = self._find_memory(context)
        with protocol_errors():
            return await self._page(memory, params.cursor if params is not None else None)

    async def _page(self, memory: ScopedMemory, cursor: str | None) -> types.ListResourcesResult:
        part, offset, until = "conversations", 0, None
        resources: list[types.Resource] = []
        if cursor is not None:
            position = decoded(cursor, _is_position)
            part, offset, until = position["part"], position["offset"], position["until"]
        else:
            resources += [_RECENT, _GRAPH] if memory.rights.graph else [_RECENT]
        if part == "conversations":
            owners = [owner async for owner in memory.store.owners("session_id", limit=PAGE + 1, offset=offset)]
            resources += [_conversation(str(owner.value)) for owner in owners[:PAGE]]
            if len(owners) > PAGE:
                return _resources(resources, {"part": part, "offset": offset + PAGE, "until": None})
            offset = 0
        room = PAGE - len(resources)
        if room <= 0:
            return _resources(resources, {"part": "items", "offset": 0, "until": None})
        items = await memory.store.search(limit=room + 1, offset=offset, until=until)
        resources += [_item(item) for item in items[:room]]
        if len(items) <= room:
            return _resources(resources, None)
        begun = until or after(items[0])
        return _resources(resources, {"part": "items", "offset": offset + room, "until": begun})

    async def templates(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(_TEMPLATES))

    async def read(self, context: RequestContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        memory, uri = self._find_memory(context), str(params.uri)
        with protocol_errors(uri):
            content = await memory.read(uri)
            if content is None:
                raise InputError("There is no such resource here.", field="uri")
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, text=content.text, mime_type=content.mime_type)]
        )

    async def listen(
        self, context: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of changes. A user hears of the changes in their own memory only.

        If one of the addresses is refused, the whole request is, and nothing is watched.
        """
        subscriptions = self._find_memory(context).subscriptions
        with protocol_errors():
            async with subscriptions.watched(params.notifications.resource_subscriptions or ()):
                return await subscriptions.listener(context, params)

    async def subscribe(self, context: RequestContext, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Notify this session of the changes of a resource, as clients before 2026-07-28 ask for it.

        A session that subscribes twice is notified once.
        """
        subscriptions, uri = self._find_memory(context).subscriptions, str(params.uri)
        notifiers = _notifiers(context)
        if uri not in notifiers:
            with protocol_errors(uri):
                await subscriptions.watch([uri])
            if uri in notifiers:  # A second request of this session was quicker.
                subscriptions.unwatch([uri])
            else:
                notifiers[uri] = _Notifier(subscriptions, uri, context.session)
        return types.EmptyResult()

    async def unsubscribe(self, context: RequestContext, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        notifier = _notifiers(context).pop(str(params.uri), None)
        if notifier is not None:
            notifier.stop()
        return types.EmptyResult()


class _Notifier:
    """Notifies one session of the changes of one resource."""

    def __init__(self, subscriptions: Subscriptions, uri: str, session: ServerSession) -> None:
        self._subscriptions = subscriptions
        self._uri = uri
        self._session = session
        self._sending: set[asyncio.Task[None]] = set()
        self._leave = subscriptions.bus.subscribe(self._notify)

    def stop(self) -> None:
        self._leave()
        self._subscriptions.unwatch([self._uri])
        for task in self._sending:
            task.cancel()

    def _notify(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated) and event.uri == self._uri:
            task = asyncio.create_task(self._session.send_resource_updated(self._uri))
            self._sending.add(task)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        if not task.cancelled():
            task.exception()  # A client that hung up misses the notification; that is not an error here.


def _notifiers(context: RequestContext) -> dict[str, _Notifier]:
    """Return the notifiers of a connection, which end with it."""
    # A session is made for each request; what lasts as long as the connection has no public name yet.
    connection = context.session._connection
    if _NOTIFIERS not in connection.state:
        held: dict[str, _Notifier] = {}
        connection.state[_NOTIFIERS] = held
        connection.exit_stack.callback(_stop_all, held)
    notifiers: dict[str, _Notifier] = connection.state[_NOTIFIERS]
    return notifiers


def _stop_all(held: dict[str, _Notifier]) -> None:
    for notifier in held.values():
        notifier.stop()


_NOTIFIERS = "memoranda.subscriptions"


def _is_position(found: dict[str, Any]) -> bool:
    return found.get("part") in ("conversations", "items") and is_position(found)


def _resources(resources: list[types.Resource], position: dict[str, Any] | None) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=resources, next_cursor=None if position is None else encoded(position))


_RECENT = types.Resource(
    uri=RECENT,
    name="recent",
    title="Recent memories",
    description="The newest memories, newest first.",
    mime_type=JSON,
)

_GRAPH = types.Resource(
    uri=GRAPH,
    name="knowledge-graph",
    title="Knowledge graph",
    description="All entities and relations.",
    mime_type=JSON,
)

_TEMPLATES = (
    types.ResourceTemplate(
        uri_template=ITEM,
        name="memory",
        title="A memory",
        description="One memory by its id, with its version, tags and times.",
        mime_type=JSON,
    ),
    types.ResourceTemplate(
        uri_template=CONVERSATION,
        name="conversation",
        title="A conversation",
        description=f"The messages of a conversation, oldest first; the newest {MOST_SHOWN} entries.",
        mime_type="text/plain",
    ),
)


def _conversation(name: str) -> types.Resource:
    return types.Resource(
        uri=address("conversations", name), name=name, title=f"Conversation {name}", mime_type="text/plain"
    )


def _item(item: MemoryItem) -> types.Resource:
    line = one_line(item.content)
    return types.Resource(
        uri=address("items", item.id),
        name=item.id,
        title=line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…",
        mime_type=JSON,
    )


_TITLE = 80

TOKENS = 4000
MAX_TOPIC = 1000

_KNOW_ME = types.Prompt(
    name="what_do_you_know_about_me",
    title="What do you know about me?",
    description="Tells you what is remembered about you, or about one topic.",
    arguments=[
        types.PromptArgument(name="topic", description="What about; leave it out for everything.", required=False)
    ],
)


class Prompts:
    """Answers what clients ask about prompts."""

    def __init__(self, find_memory: Callable[[RequestContext], ScopedMemory]) -> None:
        self._find_memory = find_memory

    async def listed(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List the one prompt that there is."""
        return types.ListPromptsResult(prompts=[_KNOW_ME])

    async def get(self, context: RequestContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return the prompt with what is remembered in it."""
        if params.name != _KNOW_ME.name:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt of this name. There is {_KNOW_ME.name}.")
        memory = self._find_memory(context)
        topic = (params.arguments or {}).get("topic", "").strip()
        if len(topic) > MAX_TOPIC:
            raise MCPError(types.INVALID_PARAMS, f"`topic` may have {MAX_TOPIC} characters at the most.")
        about = f" about {topic}" if topic else ""
        question = (
            f"What do you know about me{f', concerning {topic}' if topic else ''}? Tell me in your own words, grouped "
            "by subject, and say what is uncertain or old. If something is wrong I will tell you, so that you can "
            "correct it."
        )
        manager = ContextManager(long_term=memory.store, token_budget=TOKENS, fence=Fence())
        with protocol_errors():
            # The request to the assistant has words of its own, which are not to be looked for.
            assembled = await manager.assemble_context(f"What do you know about {topic or 'me'}?")
        remembered = assembled.parts.notes() or f"Nothing is remembered{about} yet."
        return types.GetPromptResult(
            description=_KNOW_ME.description,
            messages=[
                types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
                for text in (remembered, question)
            ],
        )
