"""A context provider of the Agent Framework that recalls."""

from __future__ import annotations

from typing import Any, ClassVar

from agent_framework import AgentSession, ContextProvider, Message, SessionContext, SupportsAgentRun

from memoranda.store import Store
from memoranda.sync import SyncStore
from memoranda.trust import lowest_trust
from memoranda_agent_framework.messages import TRUST
from memoranda_context import Fence, recall_notes
from memoranda_messages.sessions import Sessions


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
    stores context messages stores it with that. Nothing else is stored.
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
        notes = await recall_notes(self._sessions.store, question, where=elsewhere, **self._options)
        if notes.text:
            origins = [item.metadata.session_id for item in notes.items if item.metadata.session_id is not None]
            attribution = {TRUST: str(lowest_trust(notes.items))}
            message = Message("user", [notes.text], additional_properties={"_attribution": attribution})
            context.extend_messages(self, [message], origin_session_ids=origins)
