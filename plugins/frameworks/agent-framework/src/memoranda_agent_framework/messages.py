"""The Agent Framework's messages as items, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_framework import Content, Message

from memoranda.trust import trusted_as
from memoranda_messages.sessions import Fields, JsonObject, MessageFormat, Outgoing, Part

_TYPES = {"user": "human", "assistant": "ai", "system": "system", "developer": "system", "tool": "tool"}
_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
TRUST = "trust"
"""The key of a message's attribution with the lowest trust of what it was made from."""

SHARED = "shared"
"""The key of a message's attribution that says that it was made from a space."""

HOSTED = "hosted_function_call"
"""Among ``provider_parts``: a call that the provider ran itself."""

_KNOWN = {"text", "text_reasoning", "data", "uri", "function_call", "function_result", "usage"}


class AgentFrameworkFormat(MessageFormat[Message]):
    """``Message``, with contents of every kind. The results of parallel calls are one message of several items."""

    name = "agent-framework"
    holds = frozenset({"name", "is_error"})
    joins_results = True

    def dump(self, message: Message) -> JsonObject:
        """Return the framework's own form of a message, which leaves out ``raw_representation``."""
        return message.to_dict()

    def load(self, given: JsonObject) -> Message:
        """Return the message. Raises TypeError or ValueError for contents that this release does not know."""
        return Message.from_dict(given)

    def read(self, given: JsonObject) -> list[Fields]:
        """Return the fields of a message: those of what it says, then those of each result.

        What another provider has added to the context is trusted as it says, and else least: nobody said it here.
        """
        trust = trust_of_context(given.get("additional_properties") or {})
        return [fields | {"trust": trust} for fields in self._read(given)] if trust else self._read(given)

    def _read(self, given: JsonObject) -> list[Fields]:
        kind, contents = _TYPES[given["role"]], given.get("contents") or []
        results = [_result(content) for content in contents if content["type"] == "function_result"]
        answered = {result["tool_call_id"] for result in results}
        calls = [
            {"id": content["call_id"], "name": content.get("name") or "", "arguments": content.get("arguments") or {}}
            for content in contents
            if content["type"] == "function_call" and (content["call_id"] in answered or not _is_hosted(content))
        ]
        texts = [content["text"] for content in contents if content["type"] == "text"]
        parts = [part for content in contents for part in _parts(content)]
        unknown = {content["type"] for content in contents if content["type"] not in _KNOWN}
        asked = {call["id"] for call in calls}
        hosted = [
            content for content in contents if content["type"] == "function_call" and content["call_id"] not in asked
        ]
        unknown |= {HOSTED} if hosted else set()
        is_silent = not (texts or parts or calls)
        if is_silent and results:
            return results
        if is_silent and unknown and kind == "human":
            kind = "item"  # Such as an approval: it does not begin another turn.
        elif kind == "tool":
            kind = "item" if is_silent else "human"
        said: Fields = {"memory_type": kind, "content": " ".join(texts), "parts": parts}
        said |= {"name": given.get("author_name"), "provider_parts": sorted(unknown), "tool_calls": calls}
        return [said, *results]

    def roles(self, given: JsonObject) -> list[str]:
        """Return the role of a message."""
        return [given["role"]]

    def write(self, outgoing: Outgoing) -> Message:
        """Return a message. Images, audio and files go along with a person's message or a result, not with others."""
        contents = [Content.from_text(outgoing.text)] if outgoing.text else []
        if outgoing.role == "human":
            contents += outgoing.media(_content, Content.from_text)
        contents += [
            Content.from_function_call(call.id, call.name, arguments=call.arguments) for call in outgoing.calls
        ]
        for result in outgoing.results:
            held = [Content.from_text(result.text), *result.media(_content, Content.from_text)]
            failed = "FunctionInvocationError" if result.is_error else None
            contents.append(Content.from_function_result(result.call_id, result=held, exception=failed))
        return Message(_ROLES[outgoing.role], contents, author_name=outgoing.legal_name())


def trust_of_context(properties: Mapping[str, Any]) -> str | None:
    """Return how far a message is trusted that a provider has added to the context; None for any other message."""
    attribution = properties.get("_attribution")
    if not isinstance(attribution, Mapping):
        return None
    return str(trusted_as("human", str(attribution.get(TRUST))))


def is_shared(message: Message) -> bool:
    """Return True for a message of the context that was made from a space, which its reader may lose."""
    attribution = message.additional_properties.get("_attribution")
    return isinstance(attribution, Mapping) and bool(attribution.get(SHARED))


def _is_hosted(content: JsonObject) -> bool:
    """Return True for a call that the provider runs itself: no result of ours will come."""
    return bool(content.get("hosted") or content.get("informational_only"))


def _result(content: JsonObject) -> Fields:
    items = content.get("items") or []
    texts = [item["text"] for item in items if item["type"] == "text" and item.get("text")]
    text = "\n".join(texts) if items else content.get("result")
    return {
        "memory_type": "tool",
        "content": text if isinstance(text, str) else "",
        "tool_call_id": content["call_id"],
        "is_error": content.get("exception") is not None,
        "parts": [part for item in items for part in _parts(item)],
    }


def _parts(content: JsonObject) -> Iterator[Part]:
    if content["type"] == "text_reasoning":
        yield Part("reasoning", text=content.get("text"), signature=content.get("protected_data"))
    elif content["type"] in ("data", "uri"):
        media_type = content.get("media_type") or ""
        kind = Part.of_media(media_type).kind
        yield Part.from_url(kind, content["uri"], name=content.get("name"), media_type=media_type)


def _content(part: Part) -> Content | None:
    """Return an image, a recording or a file as content."""
    if part.as_url is None:
        return None
    content = Content.from_uri(part.as_url, media_type=part.media_type or _ANY[part.kind])
    content.name = part.name  # Older releases take no such argument.
    return content


_ANY = {"image": "image/*", "audio": "audio/*", "video": "video/*", "file": "application/octet-stream"}
"""The media type of a part that names none: the framework needs one to tell images from other files."""
