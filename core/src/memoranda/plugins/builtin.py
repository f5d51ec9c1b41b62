"""The plugin that the core itself is: what can be had without installing anything else."""

from __future__ import annotations

from memoranda.plugins.hookspecs import Backend, TokenCounterSpec, hookimpl


@hookimpl
def memoranda_backends() -> list[Backend]:
    """Offer the in-memory store."""
    return [
        Backend(
            "memory",
            schemes=("memory",),
            target="memoranda.store.in_memory:InMemoryStore",
            summary="In this process only; nothing is kept.",
        )
    ]


@hookimpl
def memoranda_token_counters() -> list[TokenCounterSpec]:
    """Offer the estimate by length."""
    return [
        TokenCounterSpec("estimate", target="memoranda.tokens:estimate_tokens", summary="Characters divided by four.")
    ]
