"""What to install for a name that is missing: the one place that knows this project's own distributions.

Until a release is on the package index, each of them is installed from a clone of the repository.
"""

from __future__ import annotations

from collections.abc import Mapping

CORE = "memoranda"
"""The distribution that this package belongs to, and the name of the plugin that the core itself is."""

OFFERED_BY: Mapping[str, str] = {
    "text": "memoranda-ranking",
    "hashing": "memoranda-ranking",
    "sqlite": "memoranda-sqlite",
    "postgresql": "memoranda-postgres",
    "postgres": "memoranda-postgres",
    "redis": "memoranda-redis",
    "rediss": "memoranda-redis",
    "redis+cluster": "memoranda-redis",
    "rediss+cluster": "memoranda-redis",
    "episodic": "memoranda-redis",
    "vector": "memoranda-vector",
    "anthropic": "memoranda-anthropic",
    "mcp": "memoranda-mcp",
    "openai": "memoranda-openai",
    "static": "memoranda-embed-static",
    "minilm": "memoranda-embed-static",
    "redact": "memoranda-redact",
    "langgraph-store": "memoranda-langgraph",
    "langgraph-checkpointer": "memoranda-langgraph",
    "openai-agents": "memoranda-openai-agents",
    "pydantic-ai": "memoranda-pydantic-ai",
    "inspect": "memoranda-inspector",
    "conversation": "memoranda-summary-conversation",
    "facts": "memoranda-summary-facts",
    "profiles": "memoranda-summary-profiles",
}
"""The distribution of ours that offers each name: a URL scheme, a template, an embedder, an item type, an observer, an
integration."""

_LIBRARIES = ("cli", "context", "messages", "ranking", "sql", "summary", "testing")

OURS = frozenset({CORE, *(f"memoranda-{name}" for name in _LIBRARIES), *OFFERED_BY.values()})
"""Every distribution of this project. Nobody takes a name away from them."""


_CLI = ("messages", "ranking", "context", "summary")

NEEDS: Mapping[str, tuple[str, ...]] = {
    "cli": _CLI,
    "context": ("messages", "ranking"),
    "inspector": (*_CLI, "cli"),
    "langgraph": ("ranking",),
    "mcp": (*_CLI, "cli"),
    "openai": ("ranking",),
    "openai-agents": ("messages",),
    "postgres": ("ranking", "sql"),
    "pydantic-ai": ("messages",),
    "redis": ("ranking",),
    "sqlite": ("ranking", "sql"),
    "summary-conversation": ("summary",),
    "summary-facts": ("summary",),
    "summary-profiles": ("summary",),
    "testing": ("ranking", "summary"),
    "vector": ("ranking",),
}
"""The folders of the plugins that each plugin needs: a clone has to install them together."""


def how_to_install(distribution: str, extra: str | None = None) -> str:
    """Return the command that installs one of this project's distributions, and where to run it."""
    name = distribution.removeprefix(f"{CORE}-")
    if name == CORE:
        return "pip install ./core (in a clone of memoranda)"
    paths = [f"./plugins/{folder}" for folder in (*NEEDS.get(name, ()), name)]
    if extra is not None:
        paths[-1] = f"'{paths[-1]}[{extra}]'"  # Quoted, since a shell takes brackets for a pattern.
    return f"pip install {' '.join(paths)} (in a clone of memoranda)"


_NAMES_OF = {
    "memoranda-context": "ContextManager context",
    "memoranda-messages": "messages to_openai from_openai to_anthropic from_anthropic to_responses from_responses",
    "memoranda-postgres": "PostgresMemoryStore",
    "memoranda-ranking": "ranking HashingEmbeddings",
    "memoranda-redis": "ShortTermMemoryManager EpisodicMemory get_short_term_memory",
    "memoranda-sql": "sql",
    "memoranda-sqlite": "SQLiteMemoryStore",
    "memoranda-summary": "summary Summarizer SummaryConfig SummaryResult SummaryTemplate TriggerResult check_trigger "
    "compact expand generate_summary undo",
    "memoranda-vector": "VectorMemoryStore OpenAIEmbeddings",
}


def where_to_import(name: str) -> str:
    """Return where to import a public name from that another distribution has, and how to install it; else nothing."""
    for distribution, names in _NAMES_OF.items():
        if name in names.split():
            package = distribution.replace("-", "_")
            what = f"Import {package}" if name == package.partition("_")[2] else f"It is in {package}: import it there"
            return f"{what}; if that is not installed: {how_to_install(distribution)}"
    return ""
