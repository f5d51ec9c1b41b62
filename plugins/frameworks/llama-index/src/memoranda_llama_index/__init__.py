"""LlamaIndex's chat store and a memory block in any store of memoranda."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_llama_index.memory import MemorandaChatStore, MemorandaMemoryBlock
    from memoranda_llama_index.messages import LlamaIndexFormat

__all__ = ["LlamaIndexFormat", "MemorandaChatStore", "MemorandaMemoryBlock"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "memory": ["MemorandaChatStore", "MemorandaMemoryBlock"],
        "messages": ["LlamaIndexFormat"],
    },
)
