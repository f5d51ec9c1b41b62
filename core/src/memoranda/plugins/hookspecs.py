"""The hooks that plugins implement, and the specs that they return.

A plugin is a module named by an entry point in the group ``memoranda``. It should import nothing heavy: a spec names
its target as text, ``"package.module:attribute"``, which is imported when it is first used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, get_args, get_type_hints

import pluggy

API_VERSION = 1
"""The version of the plugin interface that this release offers. Specs carry the one they were written for."""

ENTRY_POINT_GROUP = "memoranda"

hookspec = pluggy.HookspecMarker("memoranda")
hookimpl = pluggy.HookimplMarker("memoranda")


@dataclass(frozen=True, slots=True)
class Spec:
    """The fields of every spec."""

    name: str
    target: str = field(kw_only=True)
    api: int = field(default=API_VERSION, kw_only=True)
    summary: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Backend(Spec):
    """A store. ``target`` is its class; ``from_url(url, **options)`` on it, if there, makes a store from a URL."""

    schemes: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class WrapperSpec(Spec):
    """A layer for stores. ``target(store, value=…, **options)`` puts it into a store and returns that store.

    ``memoranda.open(url, NAME=value)`` asks for it, and so does a URL that begins with ``PREFIX+``; the value is True
    then. ``options`` are those of the URL's query that the mapping ``target.options`` names, each with the function
    that reads it. See :func:`memoranda.store.layers.add_layer`. A target may return another store instead, which opens
    and closes the one that it was given.
    """

    prefix: str = field(default="", kw_only=True)


class TemplateSpec(Spec):
    """A summary template. ``target`` is a :class:`memoranda_summary.Template`, or its class."""


class EmbeddingsSpec(Spec):
    """An embedder. ``target`` is a subclass of :class:`memoranda.embeddings.Embeddings`, called with the options."""


class SummarizerSpec(Spec):
    """A model for summaries. ``target`` makes a :class:`memoranda_summary.Summarizer` from the options."""


class FactExtractorSpec(Spec):
    """An extractor of facts. ``target`` makes a :class:`memoranda_facts.extraction.FactExtractor` from the options."""


class TokenCounterSpec(Spec):
    """A token counter. ``target`` is a function from an item to a number of tokens."""


class ItemTypeSpec(Spec):
    """An item type. ``name`` is its ``memory_type``, ``target`` a subclass of :class:`memoranda.MemoryItem`."""


@dataclass(frozen=True, slots=True)
class CommandSpec(Spec):
    """A command of the ``memoranda`` command. ``target`` is a function or a ``typer.Typer``.

    ``summary`` is its line in ``memoranda --help``, and ``section`` the heading that it stands under there.
    ``examples`` are lines for its own help, without the program's name.
    """

    section: str = field(default="From plugins", kw_only=True)
    examples: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class ObserverSpec(Spec):
    """An observer. ``target`` is a subclass of :class:`memoranda.store.Observer`, called without arguments.

    With ``option``, ``memoranda.open(url, NAME=value)`` attaches one as well, and so does ``?NAME=value`` in the URL;
    the target is called with ``value`` then.

    With ``auto`` every store that ``memoranda.open`` makes gets one; otherwise only those that ask for it by name. An
    observer that was asked for by name and cannot be made is an error. One that is ``auto`` is left out, with a warning
    in the log and a row in ``memoranda plugins``: a broken plugin stops no program. With ``required``, which is for
    observers that redact, the store is opened all the same, but takes no items while its observer is missing.
    """

    auto: bool = field(default=False, kw_only=True)
    required: bool = field(default=False, kw_only=True)
    option: bool = field(default=False, kw_only=True)


class RankerSpec(Spec):
    """A ranker of text. ``target`` is a class whose instances are a :class:`memoranda.store.Ranker`."""


class RerankerSpec(Spec):
    """A reranker of ranked results. ``target`` is a class with ``async rerank(query, ranked)``."""


class IntegrationSpec(Spec):
    """An adapter of a store for an agent framework. ``target`` is the class that the framework's users import.

    Nothing in memoranda uses it; ``memoranda plugins`` lists it.
    """


SpecT = TypeVar("SpecT", bound=Spec)


@hookspec
def memoranda_backends() -> list[Backend]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the stores that this plugin offers."""


@hookspec
def memoranda_wrappers() -> list[WrapperSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the wrappers of stores that this plugin offers."""


@hookspec
def memoranda_templates() -> list[TemplateSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the summary templates that this plugin offers."""


@hookspec
def memoranda_embeddings() -> list[EmbeddingsSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the embedders that this plugin offers."""


@hookspec
def memoranda_summarizers() -> list[SummarizerSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the models for summaries that this plugin offers."""


@hookspec
def memoranda_fact_extractors() -> list[FactExtractorSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the extractors of facts that this plugin offers."""


@hookspec
def memoranda_token_counters() -> list[TokenCounterSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the token counters that this plugin offers."""


@hookspec
def memoranda_item_types() -> list[ItemTypeSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the item types that this plugin offers."""


@hookspec
def memoranda_commands() -> list[CommandSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the commands that this plugin adds to ``memoranda``."""


@hookspec
def memoranda_observers() -> list[ObserverSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the observers that this plugin offers."""


@hookspec
def memoranda_rankers() -> list[RankerSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the rankers that this plugin offers."""


@hookspec
def memoranda_rerankers() -> list[RerankerSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return the rerankers that this plugin offers."""


@hookspec
def memoranda_integrations() -> list[IntegrationSpec]:  # type: ignore[empty-body]  # a hook specification has no body
    """Return what this plugin offers to users of an agent framework."""


HOOKS: dict[str, type[Spec]] = {
    name: get_args(get_type_hints(hook)["return"])[0]
    for name, hook in list(globals().items())
    if name.startswith("memoranda_")
}
"""Every hook and the kind of spec that it returns, as its signature says."""

KINDS: dict[type[Spec], str] = {kind: hook[10:-1].replace("_", " ") for hook, kind in HOOKS.items()} | {
    TemplateSpec: "summary template",
    EmbeddingsSpec: "embedder",
}
"""The name of each kind of spec in messages and listings."""
