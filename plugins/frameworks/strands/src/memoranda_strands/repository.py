"""Strands' repository of sessions in any store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import (
    Session,
    SessionAgent,
    SessionMessage,
    SessionType,
    decode_bytes_values,
    encode_bytes_values,
)

from memoranda.errors import VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda.sync import SyncStore
from memoranda_messages.sessions import (
    Conversation,
    Dropped,
    Records,
    Sessions,
    ViewOptions,
    beside,
    finished,
    replaced,
    seen_by,
)
from memoranda_strands.messages import FORMAT, UNNUMBERED, SessionMessageFormat

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

_SESSION, _AGENT, _MULTI_AGENT = "session", "agent", "multi-agent"
_UNOWNED = SessionMessageFormat()


class MemorandaSessionRepository(SessionRepository):
    """Sessions of Strands: ``RepositorySessionManager("chat-1", MemorandaSessionRepository(store))``.

    - ``store`` is any open store, to await or not, or better a handle that is bound to a user. It is never closed.
    - Messages are items of the conversation: ``session_id`` is the session, ``agent_id`` the agent. Sessions and agents
      are records beside them.
    - A session that another framework wrote can be read and continued by any agent.
    - ``min_trust``, ``fence`` and ``receipt`` are those of :class:`memoranda_messages.sessions.Conversation`.
    - Two processes that write the same message of a session never overwrite each other: the second one is refused.
    - Strands calls from inside a running event loop; the store is then called from a thread beside it.
    """

    def __init__(self, store: Store | SyncStore, **options: Unpack[ViewOptions]) -> None:
        self._sessions = Sessions(store, **options)
        self._agents: set[tuple[str, str]] = set()

    def __repr__(self) -> str:
        return f"MemorandaSessionRepository({self._sessions.store!r})"

    @property
    def dropped(self) -> list[Dropped]:
        """What the last :meth:`list_messages` could not carry over from other frameworks."""
        return self._sessions.dropped

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Store a session. Raises SessionException if it exists."""
        beside(self._create(session.session_id, _SESSION, session.session_id, session.to_dict()))
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session; None if there is none."""
        return beside(self._session(session_id))

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Store an agent. Raises SessionException if it exists, or its session does not."""
        self._check_session(session_id)
        beside(self._create(session_id, _AGENT, session_agent.agent_id, session_agent.to_dict()))

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent; None if there is none. Any agent can go on with what another framework wrote."""
        return beside(self._agent(session_id, agent_id))

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace an agent. Raises SessionException if it does not exist."""
        session_agent.created_at = self._checked_agent(session_id, session_agent.agent_id).created_at
        value = session_agent.to_dict()
        beside(self._records(session_id).change(_AGENT, session_agent.agent_id, lambda _: value))

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Store a message. Raises SessionException if it exists, or its agent does not."""
        if (session_id, agent_id) not in self._agents:
            self._checked_agent(session_id, agent_id)
            self._agents.add((session_id, agent_id))  # Most messages are stored by an agent that is known.
        items = self._format(session_id, agent_id).items([session_message], metadata=MemoryMetadata(agent_id=agent_id))
        try:
            beside(finished(self._sessions.view(session_id).items.update_many(items)))
        except VersionConflictError as error:
            number = session_message.message_id
            raise SessionException(f"Message {number} of agent {agent_id} exists in session {session_id}.") from error

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        """Return the message of a number; None if there is none."""
        found = beside(self._messages(self._sessions.view(session_id), agent_id))
        return next((message for message, _ in found if message.message_id == message_id), None)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message, such as one that a guardrail redacts. Raises SessionException if it does not exist."""
        beside(self._replace(session_id, agent_id, session_message))

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """Return the messages of an agent and of other frameworks, oldest first."""
        return beside(self._listed(session_id, agent_id, limit, offset))

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Store the state of a group of agents. Raises SessionException if its session does not exist."""
        self._check_session(session_id)
        state = encode_bytes_values(multi_agent.serialize_state())
        beside(self._records(session_id).change(_MULTI_AGENT, multi_agent.id, lambda _: state))

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        """Return the state of a group of agents; None if there is none."""
        record = beside(self._records(session_id).get(_MULTI_AGENT, multi_agent_id))
        return None if record is None else decode_bytes_values(record.value)

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Replace the state of a group of agents. Raises SessionException if it does not exist."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(f"Multi-agent {multi_agent.id} does not exist in session {session_id}.")
        self.create_multi_agent(session_id, multi_agent)

    def _check_session(self, session_id: str) -> None:
        if beside(self._session(session_id)) is None:
            raise SessionException(f"Session {session_id} does not exist.")

    def _checked_agent(self, session_id: str, agent_id: str) -> SessionAgent:
        found = beside(self._agent(session_id, agent_id))
        if found is None:
            raise SessionException(f"Agent {agent_id} does not exist in session {session_id}.")
        return found

    def _records(self, session_id: str) -> Records:
        return Records(self._sessions.store.scoped(session_id=session_id), FORMAT)

    def _format(self, session_id: str, agent_id: str) -> SessionMessageFormat:
        """Return the format of an agent's messages; the ids that it derives differ for every user."""
        bounds = self._sessions.store.bounds or MemoryMetadata()
        owner = (bounds.user_id, bounds.task_id, *bounds.namespace, session_id, agent_id)
        return SessionMessageFormat(*owner, derived_id=self._sessions.store.derived_id)

    async def _create(self, session_id: str, kind: str, name: str, value: Any) -> None:
        try:
            await self._records(session_id).put(kind, name, value)
        except VersionConflictError as error:
            raise SessionException(f"The {kind} {name} exists already.") from error

    async def _session(self, session_id: str) -> Session | None:
        record = await self._records(session_id).get(_SESSION, session_id)
        if record is not None:
            return Session.from_dict({**record.value, "session_type": SessionType(record.value["session_type"])})
        found = await self._sessions.view(session_id).read(1)
        return Session(session_id, SessionType.AGENT, created_at=found[0].created_at) if found else None

    async def _agent(self, session_id: str, agent_id: str) -> SessionAgent | None:
        record = await self._records(session_id).get(_AGENT, agent_id)
        if record is not None:
            return SessionAgent.from_dict(record.value)
        seen = seen_by(agent_id, await self._sessions.view(session_id).read(), FORMAT)
        manager = {"__name__": _AnyManager(), "removed_message_count": 0}
        return SessionAgent(agent_id, {}, manager, created_at=seen[0].created_at) if seen else None

    async def _messages(
        self, conversation: Conversation, agent_id: str
    ) -> list[tuple[SessionMessage, list[MemoryItem]]]:
        """Return the messages that an agent sees, numbered, each with its items."""
        found = self._sessions.messages(_UNOWNED, seen_by(agent_id, await conversation.read(), FORMAT))
        last = UNNUMBERED
        for message, _ in found:
            if message.message_id == UNNUMBERED:
                message.message_id = last + 1
            last = message.message_id
        return found

    async def _listed(self, session_id: str, agent_id: str, limit: int | None, offset: int) -> list[SessionMessage]:
        conversation = self._sessions.view(session_id)
        found = (await self._messages(conversation, agent_id))[offset:]
        found = found if limit is None else found[:limit]
        await conversation.record([item for _, items in found for item in items], limit)
        return [message for message, _ in found]

    async def _replace(self, session_id: str, agent_id: str, message: SessionMessage) -> None:
        number, conversation = message.message_id, self._sessions.view(session_id)
        found = {each.message_id: items for each, items in await self._messages(conversation, agent_id)}
        if number not in found:
            raise SessionException(f"Message {number} of agent {agent_id} does not exist in session {session_id}.")
        before = found[number]
        message.created_at = before[0].created_at
        items = self._format(session_id, agent_id).items([message], metadata=MemoryMetadata(agent_id=agent_id))
        for item, old in zip(items, before, strict=False):  # Each takes the place of an old one.
            item.id = old.id
        await replaced(conversation.items, [item.id for item in before[len(items) :]], items)


class _AnyManager(str):
    """The name of any conversation manager: a session of another framework says nothing about it."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, str)
