"""The Agent Framework's history of a session in any store, and a context provider that recalls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Unpack
from weakref import WeakValueDictionary

from agent_framework import AgentSession, ContextProvider, HistoryProvider, Message, SessionContext, SupportsAgentRun

from memoranda.loops import LoopLock
from memoranda.store import Store
from memoranda.store.owners import space_of
from memoranda.sync import SyncStore
from memoranda.trust import lowest_trust
from memoranda_agent_framework.messages import SHARED, TRUST, AgentFrameworkFormat, is_shared
from memoranda_context import Fence, recall_notes
from memoranda_messages.sessions import Dropped, SessionOptions, Sessions, retry_conflicts, settled

FORMAT = AgentFrameworkFormat()

DEFAULT_SESSION = "default"
"""The session of an agent that runs without one, as in the framework's own providers."""

_BEFORE = 64
"""How many items more than messages are read to compare with, since a message may consist of several."""


class MemorandaHistoryProvider(HistoryProvider):
    """Loads and stores the messages of sessions: ``MemorandaHistoryProvider(store.scoped(user_id="ada"))``.

    - ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. Bind it to a user, since a session id
      does not say whose it is. The provider never closes it.
    - ``source_id``, ``load_messages`` and the options for what to store are the framework's. With ``skip_excluded``,
      messages that its compaction has marked are not loaded.
    - ``ttl``, ``min_trust``, ``fence`` and ``receipt`` are those of :class:`memoranda_messages.sessions.Conversation`.

    A model is never shown a call without its results: what a killed process left half written is not loaded, unless the
    run goes on with the results.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "memoranda_history"

    def __init__(
        self,
        store: Store | SyncStore,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._sessions = Sessions(store, **options)
        self._turns: WeakValueDictionary[str, LoopLock] = WeakValueDictionary()

    @property
    def dropped(self) -> list[Dropped]:
        """What the last read could not carry over from other frameworks."""
        return self._sessions.dropped

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first: earlier turns whole, the one under way as it is."""
        conversation = self._sessions.view(session_id or DEFAULT_SESSION)
        items = settled(await conversation.read())
        await conversation.record(items)
        messages = [message for message, _ in self._sessions.messages(FORMAT, items)]
        return [message for message in messages if not (self.skip_excluded and _is_excluded(message))]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Store the messages that are new, all or none.

        As in the framework's own providers, messages that repeat the end of the session, or all of it, were stored
        before: a loop may save a whole transcript again. If another process writes meanwhile, this is decided anew.
        Calls of one provider for one session are stored in their order, even if they overlap.
        """
        session = session_id or DEFAULT_SESSION
        conversation = self._sessions.stored(session)
        messages = [message for message in messages if not is_shared(message)]  # It would outlast the grant.

        async def attempt() -> None:
            head = await conversation.head()
            stored = FORMAT.messages(await conversation.read(2 * len(messages) + _BEFORE))
            new = messages[_repeated(stored, messages) :]
            await conversation.append(FORMAT.items(new), after=head)

        if messages:
            async with self._turns.setdefault(session, LoopLock()).held():
                await retry_conflicts(attempt)

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Load the history into the context, without calls that neither it nor the input answers."""
        await super().before_run(agent=agent, session=session, context=context, state=state)
        if loaded := context.context_messages.get(self.source_id):
            context.context_messages[self.source_id] = _answered(loaded, context.input_messages)


def _is_excluded(message: Message) -> bool:
    return bool(message.additional_properties.get("_excluded"))


def _answered(history: Sequence[Message], given: Sequence[Message]) -> list[Message]:
    """Return the history without calls that are still open when the input begins another turn."""
    items, owners = [], []
    for position, message in enumerate([*history, *given]):
        found = FORMAT.items([message])
        items += found
        owners += [position] * len(found)
    kept = {id(item) for item in settled(items)}
    hidden = {owner for item, owner in zip(items, owners, strict=True) if id(item) not in kept}
    return [message for position, message in enumerate(history) if position not in hidden]


def _identity(message: Message) -> str:
    """Return what makes a message the same one: its id, or else its role and contents."""
    if message.message_id is not None:
        return f"id {message.message_id}"
    return json.dumps([message.role, [content.to_dict() for content in message.contents]], sort_keys=True, default=str)


def _repeated(stored: Sequence[Message], given: Sequence[Message]) -> int:
    """Return how many of the given messages were stored before.

    All that is stored may come again, or the newest of it. One message of a person that is repeated is new unless an id
    says otherwise: people do say the same thing twice.
    """
    before, now = [_identity(message) for message in stored], [_identity(message) for message in given]
    if not before:
        return 0
    may_repeat = stored[-1].role == "user" and stored[-1].message_id is None
    for start in range(len(now) - len(before) + 1):
        if now[start : start + len(before)] == before:
            if start == 0 and len(before) == 1 and may_repeat:
                break
            return start + len(before)
    for overlap in range(min(len(before), len(now)), 0, -1):
        if before[-overlap:] == now[:overlap] and not (overlap == 1 and may_repeat):
            return overlap
    return 0


class MemorandaContextProvider(ContextProvider):
    """Recalls what other sessions said: ``MemorandaContextProvider(store.scoped(user_id="ada"))``.

    That is what ``memoranda_context.assemble`` puts into a prompt beside the conversation: what is known of the user,
    what the user said that is worth knowing whatever is asked, and what answers the input.

    - ``store`` is any open store or handle. One that is bound to a user recalls from all sessions of that user. What
      the current session said is left to its history provider.
    - ``tokens`` bounds what is recalled. With a ``limit``, at most so many memories are, only such as answer the input.
    - ``min_trust`` leaves out what is trusted less; ``fence``, such as ``memoranda_guard.Fence()``, shows it as quotes.

    Memories come as one message of the user's, which says that they are no instructions. Its attribution has the
    sessions that they come from as ``origin_session_ids``, and the lowest ``trust`` of them: a history provider that
    stores context messages stores it with that, unless a memory of a space is among them. Nothing else is stored.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "memoranda_recall"

    def __init__(
        self,
        store: Store | SyncStore,
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        tokens: int = 2_000,
        limit: int | None = None,
        min_trust: str | None = None,
        fence: Fence | None = None,
    ) -> None:
        super().__init__(source_id)
        self._sessions = Sessions(store)
        self._options: dict[str, Any] = {"tokens": tokens, "limit": limit, "min_trust": min_trust, "fence": fence}

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Recall for the text of the input, and add what is found to the context."""
        question = "\n".join(message.text for message in context.input_messages if message.role == "user").strip()
        if not question:
            return
        elsewhere = {"session_id": {"$ne": context.session_id}} if context.session_id else None
        notes = await recall_notes(self._sessions.reaching, question, where=elsewhere, **self._options)
        if notes.text:
            origins = [item.metadata.session_id for item in notes.items if item.metadata.session_id is not None]
            attribution: dict[str, Any] = {TRUST: str(lowest_trust(notes.items))}
            if any(map(space_of, notes.items)):
                attribution[SHARED] = True
            message = Message("user", [notes.text], additional_properties={"_attribution": attribution})
            context.extend_messages(self, [message], origin_session_ids=origins)
