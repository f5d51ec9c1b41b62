"""The sessions and agents of Strands are what the repository wrote, whatever others add under their ids."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from strands.types.session import Session, SessionAgent, SessionType

from adapter_kit.hostile_records import HostileRecords
from memoranda.store import Store
from memoranda_strands import MemorandaSessionRepository


class TestSessionsAndAgents(HostileRecords):
    async def keep(self, handle: Store) -> None:
        repository = MemorandaSessionRepository(handle)
        repository.create_session(Session("chat", SessionType.AGENT))
        repository.create_agent("chat", SessionAgent("agent", {"mood": "good"}, {}))
        group: Any = SimpleNamespace(id="group", serialize_state=lambda: {"next": "agent"})
        repository.create_multi_agent("chat", group)

    async def kept(self, handle: Store) -> Any:
        repository = MemorandaSessionRepository(handle)
        session, agent = repository.read_session("chat"), repository.read_agent("chat", "agent")
        return session, agent and agent.state, repository.read_multi_agent("chat", "group")
