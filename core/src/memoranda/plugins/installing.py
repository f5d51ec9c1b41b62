"""What to install for a missing name: the one place that knows this project's own distributions.

Until a release is on the package index, each of them is installed from a clone of the repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

CORE = "memoranda"
"""The distribution that this package belongs to, and the name of the plugin that the core itself is."""


class _Distribution(NamedTuple):
    """A distribution in a folder of plugins/."""

    needs: str = ""
    """The folders that a clone has to install together with it."""
    offers: str = ""
    """URL schemes, templates, embedders, item types, observers and integrations, by name."""
    public: str = ""
    """Names that users may look for in ``memoranda`` instead."""
    commands: str = ""
    """Commands of ``memoranda``. They may have the name of something else: ``facts`` is also a template."""
    options: str = ""
    """Options of ``memoranda.open`` that attach an observer. Their names, too, may be those of something else."""


_RECALLING = "messages text ranking context"

_DISTRIBUTIONS = {
    "adk": _Distribution(needs="messages sessions text", offers="adk-sessions adk-memory"),
    "agent-framework": _Distribution(f"{_RECALLING} sessions", "agent-framework-history agent-framework-recall"),
    "anthropic": _Distribution(offers="anthropic"),
    "cli": _Distribution(needs="messages text ranking context summary userdata"),
    "context": _Distribution(needs="messages text ranking", public="ContextManager context", commands="context"),
    "embed-static": _Distribution(offers="static minilm"),
    "encrypt": _Distribution(needs="text ranking", offers="encrypt encrypted", commands="keys encrypt decrypt"),
    "eval": _Distribution(needs="messages text ranking context summary userdata cli sql sqlite", commands="eval"),
    "facts": _Distribution(
        needs="messages text ranking", offers="fact", public="Facts", commands="facts", options="facts"
    ),
    "guard": _Distribution(offers="guard quarantined", commands="quarantine"),
    "inspector": _Distribution(needs="messages text ranking context guard summary userdata cli", commands="inspect"),
    "langgraph": _Distribution(needs="messages sessions text ranking", offers="langgraph-store langgraph-checkpointer"),
    "langchain": _Distribution(needs="messages sessions", offers="langchain-history langchain-retriever"),
    "llama-index": _Distribution(f"{_RECALLING} sessions", "llama-index-chat-store llama-index-memory-block"),
    "mcp": _Distribution(needs="messages text ranking context facts guard summary userdata cli", commands="mcp"),
    "loops": _Distribution(public="loops"),
    "measuring": _Distribution(public="measuring"),
    "messages": _Distribution(
        public="messages to_openai from_openai to_anthropic from_anthropic to_responses from_responses"
    ),
    "openai": _Distribution(needs="text ranking", offers="openai"),
    "openai-agents": _Distribution(needs="messages sessions summary", offers="openai-agents"),
    "otel": _Distribution(needs="measuring", offers="otel"),
    "postgres": _Distribution(
        needs="loops text ranking sql", offers="postgresql postgres", public="PostgresMemoryStore"
    ),
    "pydantic-ai": _Distribution(needs="messages sessions", offers="pydantic-ai"),
    "ranking": _Distribution(needs="text", offers="text hashing", public="ranking HashingEmbeddings"),
    "receipts": _Distribution(
        needs="messages", offers="receipts receipt revisions revision", public="Receipts", commands="receipts"
    ),
    "redact": _Distribution(offers="redact"),
    "redis": _Distribution(
        needs="messages loops text ranking",
        offers="redis rediss redis+cluster rediss+cluster episodic",
        public="ShortTermMemoryManager EpisodicMemory get_short_term_memory",
    ),
    "sessions": _Distribution(needs="messages", public="sessions"),
    "sql": _Distribution(needs="text ranking", public="sql"),
    "sqlite": _Distribution(needs="text ranking sql", offers="sqlite", public="SQLiteMemoryStore"),
    "strands": _Distribution(needs="messages sessions", offers="strands-sessions strands-memory"),
    "summary": _Distribution(
        needs="messages",
        public="summary Summarizer SummaryConfig SummaryResult SummaryTemplate TriggerResult check_trigger compact "
        "expand generate_summary undo",
        commands="summarize compact expand undo",
    ),
    **{f"summary-{kind}": _Distribution("messages summary", kind) for kind in ("conversation", "facts", "profiles")},
    "testing": _Distribution(needs="messages text ranking context facts guard summary userdata"),
    "text": _Distribution(public="text"),
    "userdata": _Distribution(public="userdata forget export import_ Receipt"),
    "vector": _Distribution(needs="text ranking", offers="vector", public="VectorMemoryStore OpenAIEmbeddings"),
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

NEEDS: Mapping[str, tuple[str, ...]] = {name: tuple(ours.needs.split()) for name, ours in _DISTRIBUTIONS.items()}
"""The folders of the plugins that each plugin needs."""


def how_to_install(distribution: str, extra: str | None = None) -> str:
    """Return the command that installs one of this project's distributions, and where to run it."""
    name = distribution.removeprefix(f"{CORE}-")
    if name == CORE:
        return "pip install ./core (in a clone of memoranda)"
    paths = [f"./plugins/{folder}" for folder in (*NEEDS.get(name, ()), name)]
    if extra is not None:
        paths[-1] = f"'{paths[-1]}[{extra}]'"  # Quoted, since a shell takes brackets for a pattern.
    return f"pip install {' '.join(paths)} (in a clone of memoranda)"


def where_to_import(name: str) -> str:
    """Return where to import a public name of another distribution from, and how to install it; else empty text."""
    for folder, ours in _DISTRIBUTIONS.items():
        if name in ours.public.split():
            package = f"memoranda_{folder}"
            what = f"Import {package}" if name == folder else f"It is in {package}: import it there"
            return f"{what}; if that is not installed: {how_to_install(f'memoranda-{folder}')}"
    return ""
