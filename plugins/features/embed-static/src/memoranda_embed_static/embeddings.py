"""Texts as the mean of static vectors of their tokens.

The table is that of wordllama 0.4 (``l2_supercat_256``: 32,000 tokens, 256 dimensions; MIT, see NOTICE), stored as
bytes with a scale for each token: half the size of the original, with the same recall.

No token goes on after a letter with a space, so the tokens of a text are those of its words. Texts consist of the same
few thousand words again and again, and the tokens of these are kept.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memoranda.embeddings import Embeddings

_OFF_LOOP = 64
"""From this many texts on, a thread does the work, so that the event loop is not blocked."""

_WORD = re.compile("▁+[^▁]*")
"""A word with the spaces before it, which the tokenizer writes as this letter."""

_SPECIAL = re.compile("<(?:s|/s|unk)>")
"""Texts that the tokenizer takes for tokens of their own, wherever they are."""

_KEPT_WORDS = 1 << 14
"""How many words have their tokens kept, in some seven megabytes."""

_LONGEST_KEPT = 32


class StaticEmbeddings(Embeddings):
    """Embeds texts of any length without network, key or model."""

    model = "wordllama-l2-supercat-256"
    dimension = 256

    def __repr__(self) -> str:
        return "StaticEmbeddings()"

    def embed(self, text: str) -> list[float]:
        """Return the vector of one text; a text without tokens has the zero vector."""
        tokens = _tokens(text)
        if not tokens:
            return [0.0] * self.dimension
        mean: list[float] = (np.add.reduce(_table().take(tokens, 0), 0) / len(tokens)).tolist()
        return mean

    async def aembed(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self.embed(text)

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


def _tokens(text: str) -> list[int]:
    """Return the tokens of a text."""
    if not text or _SPECIAL.search(text):
        found: list[int] = _tokenizer().encode(text, add_special_tokens=False).ids
        return found
    words = _WORD.findall("▁" + text.replace(" ", "▁"))
    return [token for word in words for token in (_kept if len(word) <= _LONGEST_KEPT else _word_tokens)(word)]


def _word_tokens(word: str) -> list[int]:
    return [token.id for token in _tokenizer().model.tokenize(word)]


_kept = lru_cache(_KEPT_WORDS)(_word_tokens)


@cache
def _tokenizer() -> Any:
    packed = (files(__package__) / "tokenizer.json.gz").read_bytes()
    tokenizer = Tokenizer.from_str(gzip.decompress(packed).decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
