"""A small framework of its own kind: a message is an object with a role and pieces, as many frameworks have it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from memoranda_messages.sessions import Fields, JsonObject, MessageFormat, Outgoing, Part

_TYPES = {"user": "human", "model": "ai", "system": "system"}


@dataclass
class ToyMessage:
    """A message: ``pieces`` are objects with one of the keys text, image, thought, call, result."""

    role: str
    pieces: list[dict[str, Any]] = field(default_factory=list)
    note: Any = None


class ToyFormat(MessageFormat[ToyMessage]):
    """The messages of the small framework. The results of parallel calls are one message."""

    name = "toy"
    joins_results = True

    def dump(self, message: ToyMessage) -> JsonObject:
        return asdict(message)

    def load(self, given: JsonObject) -> ToyMessage:
        return ToyMessage(**given)

    def read(self, given: JsonObject) -> list[Fields]:
        pieces = given["pieces"]
        results = [_result(piece["result"]) for piece in pieces if "result" in piece]
        rest = [piece for piece in pieces if "result" not in piece]
        if results and not rest:
            return results
        fields: Fields = {
            "memory_type": _TYPES[given["role"]],
            "content": "\n".join(piece["text"] for piece in rest if "text" in piece),
            "parts": [_part(piece) for piece in rest if "image" in piece or "thought" in piece],
        }
        calls = [piece["call"] for piece in rest if "call" in piece]
        if calls:
            fields["tool_calls"] = [
                {"id": call["id"], "name": call["name"], "arguments": call["arguments"]} for call in calls
            ]
        return [*results, fields]

    def roles(self, given: JsonObject) -> list[str]:
        return [given["role"]]

    def write(self, outgoing: Outgoing) -> ToyMessage | None:
        if outgoing.role == "tool":
            pieces = []
            for result in outgoing.results:
                images = [{"image": part.as_url} for part in result.take("image")]
                pieces.append({"result": {"id": result.call_id, "text": result.text}})
                pieces += images
            return ToyMessage("user", pieces)
        roles = {"human": "user", "ai": "model", "system": "system"}
        pieces = [{"thought": part.text} for part in outgoing.take("reasoning")]
        pieces += [{"text": outgoing.text}] if outgoing.text else []
        pieces += [{"image": part.as_url} for part in outgoing.take("image")]
        pieces += [{"call": {"id": call.id, "name": call.name, "arguments": call.values}} for call in outgoing.calls]
        return ToyMessage(roles[outgoing.role], pieces)


def _part(piece: dict[str, Any]) -> Part:
    if "image" in piece:
        return Part.from_url("image", piece["image"])
    return Part("reasoning", text=piece["thought"], signature=json.dumps(piece.get("signed")), provider="toy")


def _result(given: dict[str, Any]) -> Fields:
    return {
        "memory_type": "tool",
        "content": given["text"],
        "tool_call_id": given["id"],
        "is_error": bool(given.get("failed")),
        "parts": [Part.from_url("image", given["image"])] if given.get("image") else [],
    }
