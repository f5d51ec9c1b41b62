"""Sessions of the OpenAI Agents SDK in any store, and plain tools as tools of the SDK.

Every item of the SDK is one memory item of the session, which can be searched, summarised and shown like any other, and
read by every other framework.

The runner reads a session for two purposes with the same call: to show a model the newest items, and to compare the end
of the session with what was written before, which needs every item. It takes the limit of the first from the session's
settings and passes it on unchanged. So a limit from these settings is marked, and any other is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from agents import FunctionTool
from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
from agents.tool_context import ToolContext

from memoranda.loops import filter_weight, offload
from memoranda.store import Store
from memoranda_messages import Dropped, PlainTool
from memoranda_messages.plain_tools import answer
from memoranda_messages.sessions import Conversation, ViewOptions, finished, warn_of
from memoranda_openai_agents.sdk_items import memory_items, reasoning_without_outcome, sdk_items, single_sdk_item
from memoranda_summary import CompactionResult, SummaryConfig, compact

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs


class ShownLimit(int):
    """A limit on what a model is shown: groups that it would cut are left out."""


class ShownSettings(SessionSettings):
    """The SDK's settings, with a limit on what a model is shown."""

    def __init__(self, given: SessionSettings | dict[str, Any] | None) -> None:
        settings = SessionSettings() if given is None else coerce_session_settings(given)
        super().__init__(limit=settings.limit)
        if self.limit is not None:
            self.limit = ShownLimit(self.limit)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionSettings) and other.to_dict() == self.to_dict()

    __hash__ = None  # type: ignore[assignment]  # as the SDK's own, which can be changed

    def resolve(self, override: SessionSettings | dict[str, Any] | None) -> SessionSettings:
        """Return the settings, overridden by those of a run."""
        return ShownSettings(SessionSettings(limit=self.limit).resolve(override))


class MemorandaSession:
    """A conversation of the Agents SDK: ``MemorandaSession("chat-1", store.scoped(user_id="ada"))``.

    - ``store`` is any open store, or better a handle bound to a user, since a session id does not say whose it is. The
      session never closes it.
    - ``session_settings`` are the SDK's; its ``limit`` applies if :meth:`get_items` is called without one.
    - ``ttl`` is how many seconds an item lives. A group of items is shown until the first of them expires.
    - ``min_trust`` leaves out items that are trusted less, and the calls whose results they are. ``fence``, such as
      ``memoranda_guard.Fence()``, shows what is not trusted as quoted data. Both apply to what :meth:`get_items`
      returns, after the limit.
    - ``receipt=True``, or a ``memoranda_receipts.Recording``, records what is read for a model.
    - A session can be used from several event loops, as ``Runner.run_sync`` does.
    """

    session_settings: SessionSettings | None

    dropped: list[Dropped]
    """What the last :meth:`get_items` could not carry over from other frameworks."""

    def __init__(
        self,
        session_id: str,
        store: Store,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        ttl: float | None = None,
        **options: Unpack[ViewOptions],
    ) -> None:
        self.session_id = session_id
        self.session_settings = ShownSettings(session_settings)
        self.dropped = []
        self._conversation = Conversation(store, session_id, ttl=ttl, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, {self._conversation.items!r})"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the conversation, oldest first: all of it, or exactly the newest ``limit`` items.

        Some items belong together, such as a call and its result, or a call and the reasoning that led to it. If one of
        them has expired, the others are no longer part of the conversation. If a runner reads for a model, a group that
        its limit would cut is left out too: a model is never shown half of it. Without a ``limit`` of the caller, that
        is what is returned: reasoning whose outcome is not there, which the API refuses, is then left out and listed in
        ``dropped``.
        """
        most = resolve_session_limit(limit, self.session_settings)
        if isinstance(limit, ShownLimit) and most is not None and most >= 0:
            items = self._conversation.trusted(await self._conversation.uncut(most))
        else:
            items = await self._conversation.read(most)
        dropped: list[Dropped] = []
        if limit is None or isinstance(limit, ShownLimit):
            lone = await offload(filter_weight(len(items)), reasoning_without_outcome, items)
            left_out = {item.id for item in lone}
            items = [item for item in items if item.id not in left_out]
            dropped += [Dropped(item.id, "reasoning", "incomplete") for item in lone]
        await self._conversation.record(items, most)
        found = await offload(filter_weight(len(items)), sdk_items, items, dropped)
        warn_of(dropped, "the Agents SDK")
        self.dropped = dropped
        return found

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items, all or none. If it raises, even for a cancellation, the write has finished or failed by then."""
        await self._conversation.append(memory_items(items, self._conversation.items.scope))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item, for good if the store can. Concurrent callers get different items."""
        popped = await self._conversation.pop()
        return None if popped is None else single_sdk_item(popped)

    async def clear_session(self) -> None:
        """Remove every item of the session, for good if the store can."""
        await self._conversation.clear()


class CompactingSession(MemorandaSession):
    """A session that is compacted after a turn, once it has grown too long: the SDK's compaction-aware session.

    The older part is summarised by ``summarizer`` (see :func:`memoranda_summary.compact`) as ``config`` says, and
    archived. A model is shown the summary instead. Nothing is lost: ``memoranda_summary.expand`` returns what a summary
    stands for, and ``undo`` puts it back. No service of the provider is needed, and any model can go on.
    """

    def __init__(
        self,
        session_id: str,
        store: Store,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        ttl: float | None = None,
        *,
        summarizer: Any,
        config: SummaryConfig | None = None,
        **options: Unpack[ViewOptions],
    ) -> None:
        super().__init__(session_id, store, session_settings, ttl, **options)
        self.summarizer = summarizer
        self.config = config or SummaryConfig()
        self.last_compaction: CompactionResult | None = None

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Summarise and archive the older part of the session if it is too long, or with ``force`` in any case.

        The runner calls it after every turn. ``response_id``, ``store`` and ``compaction_mode`` say how the provider's
        own compaction finds the history, and have no meaning here. ``last_compaction`` says what was done.
        """
        force = bool(args and args.get("force"))
        self.last_compaction = await finished(
            compact(self._conversation.items, None, self.config, self.summarizer, force=force)
        )


def as_tools(tools: Iterable[PlainTool]) -> list[FunctionTool]:
    """Return tools for ``Agent(tools=…)``. A mistake of the model is answered with a sentence, not raised."""
    return [
        FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=dict(tool.schema),
            on_invoke_tool=_invoked(tool),
            strict_json_schema=False,  # Optional arguments may be left out.
        )
        for tool in tools
    ]


def _invoked(tool: PlainTool) -> Any:
    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        return (await answer(tool, arguments)).text

    return invoke
