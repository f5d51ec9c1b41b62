"""Events that tests append."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

IMAGE = bytes(range(256))
WHOSE: dict[str, Any] = {"app_name": "app", "user_id": "ada"}
CHAT: dict[str, Any] = {**WHOSE, "session_id": "chat"}


def said(author: str, *parts: types.Part | str, **fields: Any) -> Event:
    """Return an event that says something."""
    content = types.Content(
        role="user" if author == "user" else "model",
        parts=[types.Part(text=part) if isinstance(part, str) else part for part in parts],
    )
    return Event(author=author, invocation_id="turn", content=content, **fields)


def changed(**delta: Any) -> Event:
    """Return an event that only changes state; a double underscore stands for a colon."""
    state = {key.replace("__", ":"): value for key, value in delta.items()}
    return Event(author="helper", invocation_id="turn", actions=EventActions(state_delta=state))


def call(call_id: str | None, **arguments: Any) -> types.Part:
    """Return a call of the tool ``look``."""
    return types.Part(function_call=types.FunctionCall(id=call_id, name="look", args=arguments))


def result(call_id: str | None, **response: Any) -> types.Part:
    """Return a result of the tool ``look``."""
    return types.Part(function_response=types.FunctionResponse(id=call_id, name="look", response=response))


def answered(*parts: types.Part) -> Event:
    """Return the results of calls, as ADK's runner writes them."""
    return Event(author="helper", invocation_id="turn", content=types.Content(role="user", parts=list(parts)))


def conversation() -> list[Event]:
    """Return a turn with an image, thoughts, and two calls at once."""
    return [
        said("user", "What is this?", types.Part.from_bytes(data=IMAGE, mime_type="image/png")),
        said(
            "helper",
            types.Part(text="I should look twice.", thought=True, thought_signature=b"\xff\xfe signed"),
            "Let me look.",
            call("c1", side="left", depth=None),
            call("c2", side="right"),
        ),
        answered(result("c1", result="a cat"), result("c2", error="too dark")),
        said("helper", "A cat."),
    ]


def texts(events: list[Event]) -> list[str]:
    """Return what events say."""
    return ["".join(part.text or "" for part in (event.content.parts or [])) for event in events if event.content]
