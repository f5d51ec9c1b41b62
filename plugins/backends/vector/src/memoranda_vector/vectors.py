"""Call an embedder, and check and normalise many vectors at once."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from memoranda.embeddings import Embeddings
from memoranda.errors import BadVectorError, EmbeddingError
from memoranda.loops import ITEMS_PER_TURN, TEXTS_EMBEDDED_PER_TURN, in_slices, offload, word_weight
from memoranda_backend.ranking import checked_vector, has_text, long_texts, normalised, provided_vectors
from memoranda_vector.batch_columns import ItemVectors, Matrix

_CHUNK = 1024
_LARGE = 1e30


async def embed_all(embeddings: Embeddings, texts: Sequence[str], size: float) -> ItemVectors:
    """Return the vectors of the texts; a long text has those of its passages of about ``size`` terms."""
    long = await offload(word_weight(sum(map(len, texts))), long_texts, texts, size)
    if not long:
        return ItemVectors(await embed_matrix(embeddings, texts))
    made = await embed_matrix(
        embeddings, [passage for place, text in enumerate(texts) for passage in long.get(place) or (text,)]
    )
    counts = np.ones(len(texts), dtype=np.intp)
    counts[list(long)] = [len(passages) for passages in long.values()]
    starts = np.cumsum(counts) - counts
    # Copies: a view would keep all vectors in memory for as long as one item stays.
    further = {place: made[starts[place] + 1 : starts[place] + counts[place]].copy() for place in long}
    return ItemVectors(made[starts], further)


async def embed_matrix(embeddings: Embeddings, texts: Sequence[str]) -> Matrix:
    """Return the vectors of the texts, each of length one or zero. Raises what :func:`checked_matrix` does."""
    if not texts:
        return np.zeros((0, embeddings.dimension), dtype=np.float32)
    if len(texts) == 1:
        return (await embed_one(embeddings, texts[0]))[np.newaxis]
    dimension = embeddings.dimension
    if getattr(type(embeddings), "aembed_many", None) is not Embeddings.aembed_many:
        given = await provided_vectors(embeddings, texts)
        return await offload(len(texts), checked_matrix, given, len(texts), dimension)
    # The embedder takes one text after the other. Values in lists take eight times the room that they have here, so
    # only so many are held at a time as fit the processor's cache: reused memory is twice as fast.
    matrix = np.empty((len(texts), dimension), dtype=np.float32)
    async for some in in_slices(range(len(texts)), TEXTS_EMBEDDED_PER_TURN):
        part = slice(some[0], some[-1] + 1)
        _fill(matrix[part], await provided_vectors(embeddings, texts[part]))
    return matrix


async def embed_one(embeddings: Embeddings, text: str) -> Matrix:
    """Return the vector of one text, of length one or zero.

    Raises what ``memoranda_backend.ranking.embed_texts`` does.
    """
    dimension = embeddings.dimension
    if not has_text(text):
        return np.zeros(dimension, dtype=np.float32)
    (given,) = await provided_vectors(embeddings, [text])
    vector: Matrix | None = None
    if type(given) is list and len(given) == dimension:
        with suppress(struct.error, OverflowError, TypeError):
            vector = np.frombuffer(_packer(dimension)(*given), dtype=np.float32)
    if vector is None:  # Not a list of numbers: this reads it, or raises what is wrong with it.
        vector = np.frombuffer(checked_vector(given, dimension), dtype=np.float32)
    length = math.sqrt(vector.dot(vector))
    if 0 < length < math.inf:  # Every value is finite then.
        return vector / np.float32(length)
    return unit_vector(checked_vector(given, dimension))


def unit_vector(checked: array[float]) -> Matrix:
    """Return a checked vector with length one; zeros stay zeros."""
    vector = np.frombuffer(checked, dtype=np.float32)
    length = math.sqrt(vector.dot(vector))
    if 0 < length < math.inf:
        return vector / np.float32(length)
    return np.array(normalised(checked), dtype=np.float32)


async def checked_vectors(vectors: Any, count: int, dimension: int) -> Matrix:
    """Return and raise what :func:`checked_matrix` does, but read many vectors a part at a time."""
    if count <= ITEMS_PER_TURN or not hasattr(vectors, "__len__") or len(vectors) != count:
        return checked_matrix(vectors, count, dimension)
    matrix = np.empty((count, dimension), dtype=np.float32)
    async for some in in_slices(range(count), ITEMS_PER_TURN):
        part = slice(some[0], some[-1] + 1)
        _fill(matrix[part], vectors[part])
    return matrix


def checked_matrix(vectors: Any, count: int, dimension: int) -> Matrix:
    """Return the vectors as float32 rows of length one; a row of zeros stays zero.

    Raises EmbeddingError unless there are ``count`` of them, BadVectorError unless each has ``dimension`` finite
    values.
    """
    matrix = np.empty((count, dimension), dtype=np.float32)
    _fill(matrix, vectors)
    return matrix


def _fill(matrix: Matrix, vectors: Any) -> None:
    count, dimension = matrix.shape
    if not hasattr(vectors, "__len__") or isinstance(vectors, (str, bytes)):
        raise BadVectorError(f"it is {type(vectors).__name__}, and a list of vectors was asked for")
    if len(vectors) != count:
        raise EmbeddingError(f"There are {len(vectors)} vectors for {count} texts; nothing was changed.")
    for start in range(0, count, _CHUNK):
        _normalise(_read(vectors[start : start + _CHUNK], dimension), matrix[start : start + _CHUNK])


def _read(vectors: Any, dimension: int) -> Any:
    if type(vectors) is list and type(vectors[0]) is list and type(vectors[0][0] if vectors[0] else None) is float:
        # For lists of floats this takes less than half of numpy's time; numpy reads everything else.
        with suppress(struct.error, OverflowError, TypeError):
            pack = _packer(dimension)
            return np.frombuffer(b"".join([pack(*vector) for vector in vectors]), np.float32).reshape(-1, dimension)
    try:
        rows = np.asarray(vectors)
    except (TypeError, ValueError) as error:
        raise BadVectorError(f"vectors of different lengths, where each has {dimension} values") from error
    if rows.dtype.kind not in "fiu" or rows.ndim != 2:
        raise BadVectorError("a vector is a list of numbers")
    if rows.shape[1] != dimension or dimension == 0:
        raise BadVectorError(f"it has {rows.shape[1]} values instead of {dimension}")
    if rows.dtype == np.float32:
        return rows
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


@cache
def _packer(dimension: int) -> Callable[..., bytes]:
    """Return a function that packs this many numbers as float32."""
    return struct.Struct(f"{dimension}f").pack


def _normalise(rows: Matrix, out: Matrix) -> None:
    if len(rows) == 1:
        length = math.sqrt(rows[0].dot(rows[0]))
        if 1 / _LARGE < length < _LARGE:  # Then every value is finite as a float32.
            np.divide(rows, np.float32(length), out=out)
            return
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
        if not (squares.min(initial=1.0) > 1 / _LARGE and squares.max(initial=1.0) < _LARGE):
            # Squares can leave the range of float32 but not that of double precision, which takes ten times as long. If
            # a sum is not finite there, some value is not.
            squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    if not np.isfinite(squares).all():
        raise BadVectorError("it holds values that are not finite in float32")
    lengths = np.sqrt(squares)
    lengths[lengths == 0] = 1.0
    if lengths.max() < _LARGE and lengths.min() > 1 / _LARGE:
        np.multiply(rows, (1 / lengths).astype(np.float32)[:, np.newaxis], out=out)
    else:
        out[:] = rows / lengths[:, np.newaxis]
