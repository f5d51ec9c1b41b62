"""Options that several commands share, so that each has the same name and help everywhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from memoranda_commands.terminal import Column, report
from memoranda_commands.values import check_decoded as check_decoded
from memoranda_commands.values import pairs as pairs

T = TypeVar("T")

Which = Any  # The keywords of a filter; typer never sees it.

if TYPE_CHECKING:
    from memoranda.items import MemoryMetadata
    from memoranda.store import Access
    from memoranda.store import Store as OpenStore

    Owner = MemoryMetadata | None
else:
    Owner = Any  # typer never sees it, and the class would have to be imported for every line.

OWNER = "Owner"
FILTERS = "Filters"
OUTPUT = "Output"
MODEL = "The model"


def option(spelled: str, meaning: str, panel: str | None = None, **bounds: Any) -> Any:
    """Return an option for ``Annotated``, spelled as the help shows it: ``--limit -n N``, its flags and its value.

    ``panel`` is the heading that it stands under. ``bounds`` is whatever else ``typer.Option`` takes, such as ``min``.
    """
    flags = [word for word in spelled.split() if word.startswith("-")]
    metavar = next((word for word in spelled.split() if not word.startswith("-")), None)
    return typer.Option(*flags, metavar=metavar, help=meaning, rich_help_panel=panel, **bounds)


def argument(metavar: str, meaning: str) -> Any:
    """Return an argument for ``Annotated``."""
    return typer.Argument(metavar=metavar, help=meaning)


Store = Annotated[str | None, option("--store -s URL", "The store: sqlite:///agent.db, postgresql://..., redis://...")]
StoreOptions = Annotated[
    list[str] | None, option("--option -o KEY=VALUE", "An option of the store's own; may be repeated.")
]
Json = Annotated[bool, option("--json", "Print JSON, for programs.", OUTPUT)]
Yes = Annotated[bool, option("--yes -y", "Do not ask.")]
DryRun = Annotated[bool, option("--dry-run", "Only say what would be done.")]
Model = Annotated[str | None, option("--model NAME", "The model to ask.", MODEL)]
BaseUrl = Annotated[
    str | None, option("--base-url URL", "An OpenAI-compatible service; its key is read from OPENAI_API_KEY.", MODEL)
]


@dataclass(frozen=True, slots=True)
class Target:
    """What a command works on: the store and the owner that the line names, and if it prints JSON.

    A command declares it as its last parameter, ``*, target: options.Target``, and has :func:`scoped` or
    :func:`on_store` put the options in its place.
    """

    url: str | None
    options: list[str] | None
    as_json: bool
    metadata: Owner = None

    def named(self) -> Target:
        """Return the same with the URL of the default store, and say which that is, if the line names none."""
        from memoranda_commands.stores import chosen_url

        return replace(self, url=chosen_url(self.url))

    def unopened(self, access: Access = "read") -> OpenStore:
        """Return the store without opening it, to find out first if it exists."""
        from memoranda_commands.stores import chosen_url, unopened

        return unopened(chosen_url(self.url), self.options, access)

    def opened(self, access: Access = "read") -> AbstractAsyncContextManager[OpenStore]:
        """Open the store for the block: see :func:`memoranda_commands.stores.opened`."""
        from memoranda_commands.stores import opened  # It imports the store, which no help page needs.

        return opened(self.url, self.options, access)

    def run(self, work: Callable[[OpenStore], Coroutine[Any, Any, T]], access: Access = "read") -> T:
        """Open the store, and return the result of the work on it."""
        from memoranda_commands.exits import run

        async def on_opened_store() -> T:
            async with self.opened(access) as store:
                return await work(store)

        return run(on_opened_store())

    def report(
        self, document: Any, *sentences: str, columns: Sequence[Column] = (), rows: Sequence[Sequence[Any]] = ()
    ) -> None:
        """Print the document with ``--json``; otherwise the rows as a table, if there are any, and the sentences."""
        report(document, *sentences, as_json=self.as_json, columns=columns, rows=rows)


def on_store(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --store, --option and --json, for its parameter ``target``."""
    return _spread(command, "target", _STORE, _target)


def scoped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --user, --session, --task, --agent, --namespace and --extra, and those of :func:`on_store`.

    The command gets a :class:`Target`, whose ``metadata`` is what they name, or None when they name nothing. One with a
    parameter ``metadata`` gets just that.
    """
    if "metadata" in inspect.signature(command).parameters:
        return _spread(command, "metadata", _SCOPE, _metadata)
    return _spread(command, "target", [*_SCOPE, *_STORE], _target)


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command --since, --until and --where, instead of its parameter ``which``.

    The command gets those that were given, as the keywords that a store takes.
    """
    return _spread(command, "which", _FILTERS, _which)


def grouped(name: str, group: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as options, instead of its parameter of this name.

    A field is declared as a parameter would be: ``keep: Annotated[int, typer.Option("--keep")] = 4``. The command gets
    an instance, which several commands can share and pass on as one value.
    """
    hints = get_type_hints(group, include_extras=True)
    given = [_parameter(field.name, hints[field.name], field.default) for field in fields(group)]
    return lambda command: _spread(command, name, given, group)


def _spread(
    command: Callable[..., None], name: str, options: Sequence[inspect.Parameter], joined: Callable[..., Any]
) -> Callable[..., None]:
    """Replace a parameter by options, from which ``joined`` makes its value.

    typer reads the options of a command from its signature, one by one.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == name:
            parameters += [option.replace(kind=parameter.kind) for option in options]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def with_value(**values: Any) -> None:
        given = {option.name: values.pop(option.name) for option in options}
        command(**{name: joined(**given)}, **values)

    with_value.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # PEP 362
    with_value.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_value


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_PLACE = "Only in this place or below, such as users/ada; ~1 stands for a slash in a name."
_EXTRA = "Only with this in metadata.extra; the value is JSON, or else text. May be repeated."
_WHERE = "Only with this value in a field or in extra; '{\"$gte\": 3}' and the like compare. May be repeated."

_SCOPE = [
    _parameter("user", Annotated[str | None, option("--user -u ID", "Only this user's items.", OWNER)]),
    _parameter("session", Annotated[str | None, option("--session ID", "Only this session's items.", OWNER)]),
    _parameter("task", Annotated[str | None, option("--task ID", "Only this task's items.", OWNER)]),
    _parameter("agent", Annotated[str | None, option("--agent ID", "Only this agent's items.", OWNER)]),
    _parameter("namespace", Annotated[str | None, option("--namespace PLACE", _PLACE, OWNER)]),
    _parameter("extra", Annotated[list[str] | None, option("--extra KEY=JSON", _EXTRA, OWNER)]),
]
"""Whose memories a command is for."""

_STORE = [
    _parameter("store", Store),
    _parameter("store_options", StoreOptions),
    _parameter("as_json", Json, default=False),
]
"""The store that a command is for, and how it prints."""

_SINCE = "Only items created at this time or later; ISO-8601."

_FILTERS = [
    _parameter("since", Annotated[str | None, option("--since TIME", _SINCE, FILTERS)]),
    _parameter("until", Annotated[str | None, option("--until TIME", "Only items created before this time.", FILTERS)]),
    _parameter("where", Annotated[list[str] | None, option("--where KEY=JSON", _WHERE, FILTERS)]),
]
"""Which of these memories a command is for."""


def _target(*, store: str | None, store_options: list[str] | None, as_json: bool, **owner: Any) -> Target:
    return Target(store, store_options, as_json, _metadata(**owner) if owner else None)


def _which(since: str | None, until: str | None, where: Sequence[str] | None) -> dict[str, Any]:
    named = {"since": since, "until": until, "where": pairs(where, "--where") or None}
    return {name: value for name, value in named.items() if value is not None}


def _metadata(
    user: str | None,
    session: str | None,
    task: str | None,
    agent: str | None,
    namespace: str | None,
    extra: Sequence[str] | None,
) -> Owner:
    """Return the MemoryMetadata that the options name, or None when they name nothing."""
    from memoranda.items import MemoryMetadata
    from memoranda.store import namespace_of
    from memoranda.store.backend import names_nothing

    names = {"--user": user, "--session": session, "--task": task, "--agent": agent, "--namespace": namespace}
    for name, given in names.items():
        check_decoded(given or "", name)
    metadata = MemoryMetadata(
        user_id=user,
        session_id=session,
        task_id=task,
        agent_id=agent,
        namespace=namespace_of(f"{namespace.strip('/')}/") if namespace else (),
        extra=pairs(extra, "--extra"),
    )
    return None if names_nothing(metadata) else metadata
