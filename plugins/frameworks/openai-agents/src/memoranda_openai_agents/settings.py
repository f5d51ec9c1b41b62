"""How a session tells reads for a model from other reads.

The runner reads a session for two purposes with the same call: to show a model the newest items, and to compare the end
of the session with what was written before, which needs every item. It takes the limit of the first from the session's
settings and passes it on unchanged. So a limit from these settings is marked, and any other is not.
"""

from __future__ import annotations

from typing import Any

from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings


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
