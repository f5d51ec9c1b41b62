"""Memoranda's embedder that brings its vectors along: no network, no key, no model to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_embed_static.embeddings import StaticEmbeddings

__all__ = ["StaticEmbeddings"]

__getattr__, __dir__ = lazy_names(__name__, {"embeddings": ["StaticEmbeddings"]})
