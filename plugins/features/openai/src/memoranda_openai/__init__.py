"""Memoranda's embedder and summarizer for OpenAI's API, and for every server that speaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_openai.embeddings import OpenAIEmbeddings
    from memoranda_openai.service import ChatAnswer, OpenAIChat, OpenAISummarizer

__all__ = ["ChatAnswer", "OpenAIChat", "OpenAIEmbeddings", "OpenAISummarizer"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"embeddings": ["OpenAIEmbeddings"], "service": ["ChatAnswer", "OpenAIChat", "OpenAISummarizer"]},
)
