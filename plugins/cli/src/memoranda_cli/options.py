"""Options that several commands share, so that each is spelled and explained the same everywhere."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError

if TYPE_CHECKING:
    from memoranda.items import MemoryMetadata

    Owner = MemoryMetadata | None
else:
    Owner = Any  # typer never sees it, and the class would have to be imported for every line.

OWNER = "Whose"
OUTPUT = "Output"

Store = Annotated[
    str | None,
    typer.Option("--store", "-s", metavar="URL", help="The store: sqlite:///agent.db, postgresql://…, redis://…"),
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the store's own; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=OUTPUT)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


def pairs(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """Return ``KEY=VALUE`` texts as a dict. A value is read as JSON where it is some, else it is the text itself."""
    found: dict[str, Any] = {}
    for text in given or ():
        check_decoded(text, option)
        key, equals, value = text.partition("=")
        if not equals or not key:
            # What it is instead may be a password.
            raise InputError(f"{option} takes KEY=VALUE, and one of them is none.", field=option)
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def check_decoded(text: str, what: str) -> None:
    """Raise InputError for text that Python could not read: it puts a surrogate for each byte that is no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} holds bytes that are not UTF-8 text.", field="encoding") from None


def scoped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --user, --session, --task, --agent and --extra, in the place of its parameter ``metadata``.

    typer reads the options of a command from its signature. This one says the five, and the command gets the
    MemoryMetadata that they name, or None when they name nothing.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += _SCOPE if parameter.name == "metadata" else [parameter]

    @functools.wraps(command)
    def with_metadata(**values: Any) -> None:
        named = {parameter.name: values.pop(parameter.name) for parameter in _SCOPE}
        command(metadata=_metadata(**named), **values)

    with_metadata.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # PEP 362
    with_metadata.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_metadata


def _owner(name: str, *flags: str) -> inspect.Parameter:
    option = typer.Option(f"--{name}", *flags, metavar="ID", help=f"This {name}'s only.", rich_help_panel=OWNER)
    return _parameter(name, Annotated[str | None, option])


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


_SCOPE = [
    _owner("user", "-u"),
    _owner("session"),
    _owner("task"),
    _owner("agent"),
    _parameter(
        "extra",
        Annotated[
            list[str] | None,
            typer.Option(
                "--extra",
                metavar="KEY=JSON",
                help="With this in metadata.extra; the value is JSON, or else text. May be repeated.",
                rich_help_panel=OWNER,
            ),
        ],
    ),
]
"""Whose memories a command is for, as parameters of it."""


def _metadata(
    user: str | None, session: str | None, task: str | None, agent: str | None, extra: Sequence[str] | None
) -> Owner:
    """Return the MemoryMetadata that the options name, or None when they name nothing."""
    from memoranda.items import MemoryMetadata
    from memoranda.store import names_nothing

    for name, given in (("--user", user), ("--session", session), ("--task", task), ("--agent", agent)):
        check_decoded(given or "", name)
    metadata = MemoryMetadata(
        user_id=user, session_id=session, task_id=task, agent_id=agent, extra=pairs(extra, "--extra")
    )
    return None if names_nothing(metadata) else metadata
