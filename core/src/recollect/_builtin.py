"""The plugin that the core itself is: what can be had without installing anything else."""

from __future__ import annotations

from recollect._commands import COMMANDS
from recollect.hookspecs import Backend, CommandSpec, EmbeddingsSpec, ObserverSpec, TokenCounterSpec, hookimpl


@hookimpl
def recollect_backends() -> list[Backend]:
    """Offer the in-memory store."""
    return [
        Backend(
            "memory",
            schemes=("memory",),
            target="recollect.in_memory:InMemoryStore",
            summary="In this process only; nothing is kept.",
        )
    ]


@hookimpl
def recollect_embeddings() -> list[EmbeddingsSpec]:
    """Offer the embedder that needs no model."""
    return [
        EmbeddingsSpec(
            "hashing",
            target="recollect.embeddings:HashingEmbeddings",
            summary="Hashed words and character n-grams; for tests and demos, not for meaning.",
        )
    ]


@hookimpl
def recollect_token_counters() -> list[TokenCounterSpec]:
    """Offer the estimate by length."""
    return [
        TokenCounterSpec("estimate", target="recollect.tokens:estimate_tokens", summary="Characters divided by four.")
    ]


@hookimpl
def recollect_observers() -> list[ObserverSpec]:
    """Offer the redaction of personal data."""
    return [
        ObserverSpec(
            "redact",
            target="recollect.redaction:Redactor",
            summary="Hashes e-mail addresses and phone numbers before an item is stored.",
        )
    ]


@hookimpl
def recollect_commands() -> list[CommandSpec]:
    """Offer the commands that every installation has."""
    return list(COMMANDS)
