"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import IntegrationSpec, hookimpl


@hookimpl
def memoranda_integrations() -> list[IntegrationSpec]:
    """Offer the chat history and the retriever."""
    return [
        IntegrationSpec(
            "langchain-history",
            target="memoranda_langchain.memory:MemorandaChatMessageHistory",
            api=1,
            summary="Chat histories of LangChain.",
        ),
        IntegrationSpec(
            "langchain-retriever",
            target="memoranda_langchain.memory:MemorandaRetriever",
            api=1,
            summary="A retriever of LangChain over ranked search.",
        ),
    ]
