"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer LangGraph its two interfaces."""
    return [
        IntegrationSpec(
            "langgraph-store",
            target="memoranda_langgraph.store:MemorandaStore",
            api=1,
            summary="LangGraph's long-term memory: namespaces, filters, lifetimes and search by meaning.",
        ),
        IntegrationSpec(
            "langgraph-checkpointer",
            target="memoranda_langgraph.saver:MemorandaSaver",
            api=1,
            summary="LangGraph's checkpointer: the state of a graph after every step.",
        ),
    ]
