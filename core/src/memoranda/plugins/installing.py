"""What to install for a missing name: the one place that knows this project's own distributions.

The core has an extra of the name of each: ``pip install 'memoranda[postgres]'``. In a clone, ``constraints.txt`` says
where each lies, and the core is named by its folder: ``pip install -c constraints.txt './core[postgres]'``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

CORE = "memoranda"
"""The distribution that this package belongs to, and the name of the plugin that the core itself is."""


class _Distribution(NamedTuple):
    """What one of this project's distributions offers."""

    offers: str = ""
    """URL schemes, templates, embedders, item types, observers and integrations, by name."""
    public: str = ""
    """Names that users may look for in ``memoranda`` instead, after a dot where they are in a module of the package."""
    commands: str = ""
    """Commands of ``memoranda``. They may have the name of something else: ``facts`` is also a template."""
    options: str = ""
    """Options of ``memoranda.open`` that attach an observer. Their names, too, may be those of something else."""


_DISTRIBUTIONS = {
    "adk": _Distribution(offers="adk-sessions adk-memory"),
    "agent-framework": _Distribution(offers="agent-framework-history agent-framework-recall"),
    "anthropic": _Distribution(offers="anthropic"),
    "backend": _Distribution(offers="text hashing", public="backend text ranking sql ranking.HashingEmbeddings"),
    "cli": _Distribution(),
    "commands": _Distribution(public="commands"),
    "context": _Distribution(public="ContextManager context", commands="context"),
    "embed-static": _Distribution(offers="static minilm"),
    "encrypt": _Distribution(offers="encrypt encrypted", commands="keys encrypt decrypt"),
    "facts": _Distribution(offers="fact", public="Facts", commands="facts", options="facts"),
    "guard": _Distribution(offers="guard quarantined redact", commands="quarantine"),
    "inspector": _Distribution(commands="inspect"),
    "langgraph": _Distribution(offers="langgraph-store langgraph-checkpointer"),
    "langchain": _Distribution(offers="langchain-history langchain-retriever"),
    "llama-index": _Distribution(offers="llama-index-chat-store llama-index-memory-block"),
    "mcp": _Distribution(commands="mcp"),
    "messages": _Distribution(
        public="messages to_openai from_openai to_anthropic from_anthropic to_responses from_responses"
    ),
    "openai": _Distribution(offers="openai"),
    "openai-agents": _Distribution(offers="openai-agents"),
    "otel": _Distribution(offers="otel"),
    "postgres": _Distribution(offers="postgresql postgres", public="PostgresMemoryStore"),
    "pydantic-ai": _Distribution(offers="pydantic-ai"),
    "receipts": _Distribution(offers="receipts receipt revisions revision", public="Receipts", commands="receipts"),
    "redis": _Distribution(
        offers="redis rediss redis+cluster rediss+cluster episodic",
        public="ShortTermMemoryManager EpisodicMemory get_short_term_memory",
    ),
    "spaces": _Distribution(offers="spaces", public="spaces Grants", commands="spaces grants"),
    "sqlite": _Distribution(offers="sqlite", public="SQLiteMemoryStore"),
    "strands": _Distribution(offers="strands-sessions strands-memory"),
    "summary": _Distribution(
        public="summary Summarizer SummaryConfig SummaryResult SummaryTemplate TriggerResult check_trigger compact "
        "expand generate_summary undo",
        commands="summarize compact expand undo",
    ),
    **{f"summary-{kind}": _Distribution(offers=kind) for kind in ("conversation", "facts", "profiles")},
    "testing": _Distribution(),
    "userdata": _Distribution(
        public="userdata forget export import_ ErasureReceipt", commands="revoke forget export import copy"
    ),
    "vector": _Distribution(offers="vector", public="VectorMemoryStore OpenAIEmbeddings"),
}

OURS = frozenset({CORE, *(f"memoranda-{folder}" for folder in _DISTRIBUTIONS)})
"""Every distribution of this project. No other plugin takes a name away from them."""

OFFERED_BY: Mapping[str, str] = {
    name: f"memoranda-{folder}" for folder, ours in _DISTRIBUTIONS.items() for name in ours.offers.split()
}
"""The distribution of ours that offers each name."""

COMMAND_OFFERED_BY: Mapping[str, str] = {
    name: f"memoranda-{folder}" for folder, ours in _DISTRIBUTIONS.items() for name in ours.commands.split()
}
"""The distribution of ours that offers each command beyond those of memoranda-cli itself."""

OPTION_OFFERED_BY: Mapping[str, str] = {
    name: f"memoranda-{folder}" for folder, ours in _DISTRIBUTIONS.items() for name in ours.options.split()
}
"""The distribution of ours whose observer each option of ``memoranda.open`` attaches."""


def how_to_install(distribution: str, extra: str | None = None) -> str:
    """Return the command that installs one of this project's distributions, with one of its own extras if named."""
    name = distribution.removeprefix(f"{CORE}-")
    if extra is not None:
        return f"pip install '{distribution}[{extra}]'"  # Quoted, since a shell takes brackets for a pattern.
    return f"pip install {CORE}" if name == CORE else f"pip install '{CORE}[{name}]'"


def where_to_import(name: str) -> str:
    """Return where to import a public name of another distribution from, and how to install it; else empty text."""
    for folder, ours in _DISTRIBUTIONS.items():
        for public in ours.public.split():
            module, _, last = public.rpartition(".")
            if last == name:
                package = ".".join(filter(None, (f"memoranda_{folder}", module)))
                what = f"Import {package}" if name == folder else f"It is in {package}: import it there"
                return f"{what}; if that is not installed: {how_to_install(f'memoranda-{folder}')}"
    return ""
