"""A tool: its name and description, its arguments and result as models, and the function that it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any, get_type_hints

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from memoranda.errors import InputError
from memoranda_mcp.memory import Outcome

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Reports the progress of a long call: how much is done, of how much, and what is being done."""

Run = Callable[..., Coroutine[Any, Any, Outcome]]
"""The function of a tool: it gets the memory of the caller, a way to report progress, and the arguments by keyword."""

MAX_CONTENT = 200_000
"""How many characters a memory may have: a longer text is a document, and belongs elsewhere."""

Content = Annotated[str, Field(min_length=1, max_length=MAX_CONTENT)]
Id = Annotated[str, Field(min_length=1, max_length=1000)]
Limit = Annotated[int, Field(ge=1, le=100)]


class Arguments(BaseModel):
    """The base of every tool's arguments. An unknown argument is refused, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the server offers and runs it. ``reads``, ``destroys`` and ``repeatable`` are hints for clients."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    outcome: type[Outcome]
    run: Run
    reads: bool = False
    destroys: bool = False
    repeatable: bool = False

    def described(self, modes: list[str]) -> types.Tool:
        """Return the description that a client gets; ``modes`` are the search modes that the store has."""
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

    def checked(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the validated arguments. Raises InputError with a sentence that says which are wrong, and why.

        The message does not repeat their values, which may be long or private.
        """
        names = self.arguments.model_fields
        try:
            found = self.arguments.model_validate(given)
        except ValidationError as error:
            known = ", ".join(f"`{name}`" for name in names) or "none"
            problems = dict.fromkeys(_sentence(each["loc"], each["type"], each["msg"]) for each in error.errors())
            raise InputError(f"{' '.join(problems)} The arguments of {self.name}: {known}.") from None
        return {name: getattr(found, name) for name in names}


def tool(title: str, *, without: Collection[str] = (), **hints: bool) -> Callable[[Run], Tool]:
    """Make a tool of a function. It has the function's name; its docstring is the description that clients get.

    Its keyword-only parameters are the tool's arguments, except those that it is to be ``without``. ``hints`` are
    ``reads``, ``destroys`` and ``repeatable``.
    """

    def made(run: Run) -> Tool:
        outcome, description = get_type_hints(run)["return"], " ".join((run.__doc__ or "").split())
        return Tool(run.__name__, title, description, arguments_of(run, without), outcome, run, **hints)

    return made


def arguments_of(run: Run, without: Collection[str] = ()) -> type[Arguments]:
    """Return the model of the keyword-only parameters of a tool's function."""
    types_of = get_type_hints(run, include_extras=True)
    wanted = [each for each in signature(run).parameters.values() if each.kind is each.KEYWORD_ONLY]
    fields: dict[str, Any] = {
        each.name: (types_of[each.name], ... if each.default is each.empty else each.default)
        for each in wanted
        if each.name not in without
    }
    return create_model(run.__name__, __base__=Arguments, __doc__=f"What {run.__name__} takes.", **fields)


def _sentence(place: tuple[int | str, ...], kind: str, message: str) -> str:
    name = ".".join(str(part)[:80] for part in place)
    if kind == "extra_forbidden":
        return f"`{name}` is not an argument of this tool."
    if kind == "missing":
        return f"`{name}` is missing."
    return f"`{name}`: {message[:1].lower()}{message[1:].split(' [')[0]}."


def _required_or_left_out(argument: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument without null, which means the same as leaving the argument out."""
    choices = [choice for choice in argument.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return argument
    kept = {key: value for key, value in argument.items() if key not in ("anyOf", "default")}
    return {**choices[0], **kept}


def _plain(schema: Any) -> Any:
    """Return a schema without generated titles: they repeat the names, and cost tokens."""
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
