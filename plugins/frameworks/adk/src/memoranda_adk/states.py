"""The state of sessions as ADK writes and shows it: keys with a prefix belong to the user or the app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from memoranda_messages.sessions import StoredState
from memoranda_messages.sessions.scoped_state import APP, SESSION, USER

_PREFIXES = {USER: State.USER_PREFIX, APP: State.APP_PREFIX}

Deltas = dict[str, dict[str, Any]]


def deltas_of(state: Mapping[str, Any] | None) -> Deltas:
    """Return changes of state by scope, as JSON. What JSON cannot hold is stored as its text; ``temp:`` is left out."""
    found: Deltas = {SESSION: {}, USER: {}, APP: {}}
    for key, value in (state or {}).items():
        scope = next((scope for scope, prefix in _PREFIXES.items() if key.startswith(prefix)), SESSION)
        if not key.startswith(State.TEMP_PREFIX):
            found[scope][key.removeprefix(_PREFIXES.get(scope, ""))] = to_jsonable_python(value, fallback=str)
    return found


def shown_state(stored: StoredState) -> dict[str, Any]:
    """Return the state that a session shows: its own, and that which it shares."""
    shown = stored.values(SESSION)
    for scope, prefix in _PREFIXES.items():
        shown |= {prefix + key: value for key, value in stored.values(scope).items()}
    return shown
