"""The state of ADK's sessions, users and apps is what the service wrote, whatever others add under its ids."""

from __future__ import annotations

from typing import Any

from adk_events import CHAT, WHOSE, said

from adapter_kit.hostile_records import HostileRecords
from memoranda.store import Store
from memoranda_adk import MemorandaSessionService

STATE = {"mood": "good", "user:name": "Ada", "app:theme": "dark"}


class TestStates(HostileRecords):
    async def keep(self, handle: Store) -> None:
        service = MemorandaSessionService(handle)
        # The stranger's event makes a session of this id, which the user then goes on with.
        session = await service.get_session(**CHAT) or await service.create_session(**CHAT, state=STATE)
        event = said("user", "Hi.")
        event.actions.state_delta = {"turns": 1}
        await service.append_event(session, event)

    async def kept(self, handle: Store) -> Any:
        service = MemorandaSessionService(handle)
        session = await service.get_session(**CHAT)
        listed = (await service.list_sessions(**WHOSE)).sessions
        state = {} if session is None else session.state
        return state, [each.state for each in listed], await service.get_user_state(**WHOSE)
