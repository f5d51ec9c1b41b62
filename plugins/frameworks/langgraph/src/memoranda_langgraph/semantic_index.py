"""Search by meaning: which texts of a value are embedded, how their vectors are stored, and how they score."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langgraph.store.base import IndexConfig, ensure_embeddings, get_text_at_path, tokenize_path

from memoranda.errors import BadVectorError, InputError
from memoranda_backend.ranking import checked_vector
from memoranda_langgraph.serializing import packed, unpacked

if TYPE_CHECKING:
    from langgraph.store.base import Embeddings

DISTANCES = ("cosine", "inner_product", "l2")
"""How vectors can be compared. Nearer vectors score higher: for ``l2`` the score is the negative distance."""

_WHOLE = "$"

Path = str | list[str]


class SemanticIndex:
    """The semantic index of a store: an embedder, the paths whose texts it embeds, and the distance function.

    ``config`` is LangGraph's: ``embed``, ``dims``, ``fields``, and ``distance_type``, one of :data:`DISTANCES`.
    """

    def __init__(self, config: IndexConfig) -> None:
        self.embeddings: Embeddings = ensure_embeddings(config.get("embed"))
        self._paths = [_tokens(path) for path in config.get("fields") or [_WHOLE]]
        self._dims = config.get("dims")
        distance = dict(config).get("distance_type") or DISTANCES[0]
        if distance not in DISTANCES:
            raise InputError(
                f"{str(distance)[:20]!r} is not a distance_type. Use one of {', '.join(DISTANCES)}.", field="index"
            )
        self._distance = str(distance)

    def texts(self, value: Mapping[str, Any], index: Literal[False] | list[str] | None) -> list[str]:
        """Return the texts of a value to embed: those at the store's paths, at the given ones, or none."""
        if index is False:
            return []
        paths = self._paths if index is None else [_tokens(path) for path in index]
        return [text for path in paths for text in get_text_at_path(value, path) if text]

    async def embedded(self, texts: Iterable[str]) -> dict[str, array[float]]:
        """Return the vector of each text; equal texts are embedded once. Raises BadVectorError."""
        different = list(dict.fromkeys(texts))
        if not different:
            return {}
        vectors = await self.embeddings.aembed_documents(different)
        if len(vectors) != len(different):
            raise BadVectorError(f"the embedder returned {len(vectors)} vectors for {len(different)} texts")
        return {text: self._checked(vector) for text, vector in zip(different, vectors, strict=True)}

    async def query_vector(self, text: str) -> array[float]:
        """Return the vector of a query. Raises BadVectorError."""
        return self._checked(await self.embeddings.aembed_query(text))

    def _checked(self, vector: Sequence[float]) -> array[float]:
        return checked_vector(vector, self._dims or len(vector))

    def best(self, query: array[float], stored: Mapping[str, Any]) -> dict[str, float]:
        """Return the score of each item, that of its nearest vector, best first.

        ``stored`` are the vectors of each item as :func:`pack` returns them. Vectors of another length than the query's
        come from another model and have no score.
        """
        found = {key: vectors for key, text in stored.items() if (vectors := unpack(text, len(query)))}
        scores = self._scores(query, found)
        return dict(sorted(scores.items(), key=lambda pair: pair[1], reverse=True))

    def _scores(self, query: array[float], found: Mapping[str, array[float]]) -> dict[str, float]:
        if not found:
            return {}
        import numpy  # Most programs search without it.

        width = len(query)
        matrix = numpy.frombuffer(b"".join([each.tobytes() for each in found.values()]), "=f4").reshape(-1, width)
        matrix = matrix.astype("f8")
        direction = numpy.asarray(query, "f8")
        if self._distance == "l2":
            scores = -numpy.linalg.norm(matrix - direction, axis=1)
        else:
            scores = matrix @ direction
        if self._distance == "cosine":
            lengths = numpy.linalg.norm(matrix, axis=1) * numpy.linalg.norm(direction)
            scores = numpy.divide(scores, lengths, out=numpy.zeros_like(scores), where=lengths != 0)
        starts, start = [], 0
        for vectors in found.values():
            starts.append(start)
            start += len(vectors) // width
        return dict(zip(found, numpy.maximum.reduceat(scores, starts).tolist(), strict=True))


def pack(vectors: Iterable[array[float]]) -> str:
    """Return vectors as one text: little-endian float32 values, one vector after the other."""
    joined = array("f")
    for vector in vectors:
        joined.extend(vector)
    if sys.byteorder == "big":
        joined.byteswap()
    return packed(joined.tobytes())


def unpack(text: Any, width: int) -> array[float]:
    """Return the values of packed vectors of this width, one after the other; empty if they cannot be compared."""
    vectors = array("f")
    try:
        vectors.frombytes(unpacked(text["vectors"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return array("f")
    if sys.byteorder == "big":
        vectors.byteswap()
    return vectors if text.get("dims") == width and len(vectors) % width == 0 else array("f")


def _tokens(path: str) -> Path:
    return path if path == _WHOLE else tokenize_path(path)
