"""What to install for a name that is missing: the one place that knows this project's own distributions.

Until a release is on the package index, each of them is installed from a clone of the repository.
"""

from __future__ import annotations

from collections.abc import Mapping

CORE = "memoranda"
"""The distribution that this package belongs to, and the name of the plugin that the core itself is."""

OFFERED_BY: Mapping[str, str] = {
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

OURS = frozenset({CORE, "memoranda-cli", "memoranda-testing", *OFFERED_BY.values()})
"""Every distribution of this project. Nobody takes a name away from them."""


def how_to_install(distribution: str, extra: str | None = None) -> str:
    """Return the command that installs one of this project's distributions, and where to run it."""
    name = distribution.removeprefix(f"{CORE}-")
    what = "./core" if name == CORE else f"./plugins/{name}"
    if extra is not None:
        what = f"'{what}[{extra}]'"  # Quoted, since a shell takes brackets for a pattern.
    return f"pip install {what} (in a clone of memoranda)"
