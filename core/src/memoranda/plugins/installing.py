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
    """Names that users may look for in ``memoranda`` instead, after a dot where they are in a module of the package."""
    commands: str = ""
    """Commands of ``memoranda``. They may have the name of something else: ``facts`` is also a template."""
    options: str = ""
    """Options of ``memoranda.open`` that attach an observer. Their names, too, may be those of something else."""


_DISTRIBUTIONS = {
    "adk": _Distribution(needs="backend messages", offers="adk-sessions adk-memory"),
    "agent-framework": _Distribution(
        needs="backend messages commands context", offers="agent-framework-history agent-framework-recall"
    ),
    "anthropic": _Distribution(offers="anthropic"),
    "backend": _Distribution(offers="text hashing", public="backend text ranking sql ranking.HashingEmbeddings"),
    "cli": _Distribution(needs="backend messages commands userdata context summary sqlite"),
    "commands": _Distribution(public="commands"),
    "context": _Distribution(needs="backend messages commands", public="ContextManager context", commands="context"),
    "embed-static": _Distribution(offers="static minilm"),
    "encrypt": _Distribution(needs="backend commands", offers="encrypt encrypted", commands="keys encrypt decrypt"),
    "facts": _Distribution(
        needs="backend messages commands", offers="fact", public="Facts", commands="facts", options="facts"
    ),
    "guard": _Distribution(needs="commands", offers="guard quarantined redact", commands="quarantine"),
    "inspector": _Distribution(
        needs="backend messages commands userdata context guard summary sqlite cli", commands="inspect"
    ),
    "langgraph": _Distribution(needs="backend messages", offers="langgraph-store langgraph-checkpointer"),
    "langchain": _Distribution(needs="messages", offers="langchain-history langchain-retriever"),
    "llama-index": _Distribution(
        needs="backend messages commands context", offers="llama-index-chat-store llama-index-memory-block"
    ),
    "mcp": _Distribution(
        needs="backend messages commands userdata context facts guard summary sqlite cli", commands="mcp"
    ),
    "messages": _Distribution(
        public="messages to_openai from_openai to_anthropic from_anthropic to_responses from_responses"
    ),
    "openai": _Distribution(needs="backend", offers="openai"),
    "openai-agents": _Distribution(needs="messages commands summary", offers="openai-agents"),
    "otel": _Distribution(offers="otel"),
    "postgres": _Distribution(needs="backend", offers="postgresql postgres", public="PostgresMemoryStore"),
    "pydantic-ai": _Distribution(needs="messages", offers="pydantic-ai"),
    "receipts": _Distribution(
        needs="messages commands", offers="receipts receipt revisions revision", public="Receipts", commands="receipts"
    ),
    "redis": _Distribution(
        needs="backend messages",
        offers="redis rediss redis+cluster rediss+cluster episodic",
        public="ShortTermMemoryManager EpisodicMemory get_short_term_memory",
    ),
    "spaces": _Distribution(
        needs="backend commands", offers="spaces", public="spaces Grants", commands="spaces grants"
    ),
    "sqlite": _Distribution(needs="backend", offers="sqlite", public="SQLiteMemoryStore"),
    "strands": _Distribution(needs="messages", offers="strands-sessions strands-memory"),
    "summary": _Distribution(
        needs="messages commands",
        public="summary Summarizer SummaryConfig SummaryResult SummaryTemplate TriggerResult check_trigger compact "
        "expand generate_summary undo",
        commands="summarize compact expand undo",
    ),
    **{
        f"summary-{kind}": _Distribution("messages commands summary", kind)
        for kind in ("conversation", "facts", "profiles")
    },
    "testing": _Distribution(needs="backend messages commands userdata context facts guard summary"),
    "userdata": _Distribution(public="userdata forget export import_ Receipt"),
    "vector": _Distribution(needs="backend", offers="vector", public="VectorMemoryStore OpenAIEmbeddings"),
}

_LAYERS = {
    "frameworks": "adk agent-framework anthropic langchain langgraph llama-index openai-agents pydantic-ai strands",
    "libraries": "backend commands messages",
    "programs": "cli inspector mcp testing",
    "features": "context embed-static encrypt facts guard openai otel receipts spaces summary userdata",
    "backends": "postgres redis sqlite vector",
}
"""The folders of plugins/, and the distributions in each; summary templates are in another."""

FOLDERS = {name: f"plugins/{layer}/{name}" for layer, names in _LAYERS.items() for name in names.split()} | {
    f"summary-{kind}": f"plugins/summaries/{kind}" for kind in ("conversation", "facts", "profiles")
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
    paths = [f"./{FOLDERS[needed]}" for needed in (*NEEDS.get(name, ()), name)]
    if extra is not None:
        paths[-1] = f"'{paths[-1]}[{extra}]'"  # Quoted, since a shell takes brackets for a pattern.
    return f"pip install {' '.join(paths)} (in a clone of memoranda)"


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
