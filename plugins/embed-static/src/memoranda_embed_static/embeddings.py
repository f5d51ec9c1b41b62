"""Texts as the mean of static vectors of their tokens.

The table is that of wordllama 0.4 (``l2_supercat_256``: 32,000 tokens, 256 dimensions; MIT, see NOTICE), stored as
bytes with a scale for each token: half the size of the original, with the same recall.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memoranda.embeddings import Embeddings

_OFF_LOOP = 64
"""From this many texts on, a thread does the work, so that the event loop is not blocked."""


class StaticEmbeddings(Embeddings):
    """Embeds texts of any length within microseconds, without network, key or model."""

    model = "wordllama-l2-supercat-256"
    dimension = 256
    trust = 0.8

    def __repr__(self) -> str:
        return "StaticEmbeddings()"

    def embed(self, text: str) -> list[float]:
        """Return the vector of one text; a text without tokens has the zero vector."""
        return self.embed_many([text])[0]

    async def aembed(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self.embed(text)

    def embed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order."""
        table, tokenizer = _table(), _tokenizer()
        encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        vectors = [table[entry.ids].mean(axis=0) if entry.ids else np.zeros(self.dimension) for entry in encoded]
        return [vector.tolist() for vector in vectors]

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order."""
        if len(texts) < _OFF_LOOP:
            return self.embed_many(texts)
        return await asyncio.to_thread(self.embed_many, texts)


@cache
def _table() -> NDArray[np.float32]:
    """Return the vectors of all tokens, read once per process."""
    with (files(__package__) / "table.npz").open("rb") as file, np.load(file) as stored:
        vectors: NDArray[np.float32] = stored["vectors"] * stored["scales"].astype(np.float32)[:, np.newaxis]
    return vectors


@cache
def _tokenizer() -> Any:
    packed = (files(__package__) / "tokenizer.json.gz").read_bytes()
    tokenizer = Tokenizer.from_str(gzip.decompress(packed).decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
