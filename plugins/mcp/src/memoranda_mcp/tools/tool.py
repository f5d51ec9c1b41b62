"""What a tool is: a name and words that people read, its arguments and results as models, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memoranda.errors import InputError
from memoranda_mcp.tools.outcome import Outcome

if TYPE_CHECKING:
    from memoranda_mcp.desk import Desk

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Tells the assistant how far a long call has come: so much, of so much, doing what."""

MAX_CONTENT = 200_000
"""How many characters a memory may have. A model reads no more at once, and a document has better places."""

Content = Annotated[str, Field(min_length=1, max_length=MAX_CONTENT)]
Id = Annotated[str, Field(min_length=1, max_length=1000)]
Limit = Annotated[int, Field(ge=1, le=100)]


class Arguments(BaseModel):
    """The base of every tool's arguments: what a tool does not know is refused, not passed over."""

    model_config = ConfigDict(extra="forbid", strict=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``run`` gets the desk of whoever calls, the checked arguments and a way to report progress."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    outcome: type[Outcome]
    run: Callable[[Desk, Any, Report], Awaitable[Outcome]]
    reads: bool = False
    destroys: bool = False
    repeatable: bool = False

    def described(self, modes: list[str]) -> types.Tool:
        """Return the tool as a client is told of it; ``modes`` are the searches that the store has."""
        schema = _plain(self.arguments.model_json_schema())
        properties = schema.setdefault("properties", {})
        for name, argument in properties.items():
            properties[name] = _required_or_left_out(argument)
        if "mode" in properties:
            properties["mode"]["enum"] = modes
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema,
            output_schema=_plain(self.outcome.model_json_schema(mode="serialization")),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                idempotent_hint=self.repeatable or self.reads,
                open_world_hint=False,
            ),
        )

    def checked(self, given: dict[str, Any]) -> Arguments:
        """Return the arguments. Raises InputError with a sentence that says which are wrong and how they should be.

        What was given is not repeated: it may be long, or somebody's words.
        """
        try:
            return self.arguments.model_validate(given)
        except ValidationError as error:
            known = ", ".join(f"`{name}`" for name in self.arguments.model_fields) or "none"
            told = dict.fromkeys(_told(problem["loc"], problem["type"], problem["msg"]) for problem in error.errors())
            raise InputError(f"{' '.join(told)} The arguments of {self.name}: {known}.") from None


def _told(place: tuple[int | str, ...], kind: str, message: str) -> str:
    name = ".".join(str(part)[:80] for part in place)
    if kind == "extra_forbidden":
        return f"`{name}` is no argument of this tool."
    if kind == "missing":
        return f"`{name}` is missing."
    return f"`{name}`: {message[:1].lower()}{message[1:].split(' [')[0]}."


def _required_or_left_out(argument: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument without null, which means the same as leaving it out."""
    choices = [choice for choice in argument.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return argument
    kept = {key: value for key, value in argument.items() if key not in ("anyOf", "default")}
    return {**choices[0], **kept}


def _plain(schema: Any) -> Any:
    """Return a schema without the titles that are made from names: they tell a model nothing, and cost tokens."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        plain[key] = {name: _plain(part) for name, part in value.items()} if key == "properties" else _plain(value)
    return plain
