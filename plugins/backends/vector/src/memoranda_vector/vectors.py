"""Vectors: calling an embedder, checking and normalising many at once, and the rows nearest to one.

The nearest rows are found exactly, by one matrix product, or approximately by a graph index (extra ``ann``).
"""

from __future__ import annotations

import asyncio
import math
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoranda.embeddings import Embeddings
from memoranda.errors import BadVectorError, EmbeddingError, UnsupportedError
from memoranda.loops import ITEMS_PER_TURN, TEXTS_EMBEDDED_PER_TURN, LoopLock, in_slices, offload, word_weight
from memoranda.plugins import how_to_install
from memoranda_backend.ranking import checked_vector, has_text, long_texts, normalised, passage_at, provided_vectors
from memoranda_vector.batch_columns import ItemVectors, Matrix
from memoranda_vector.column_index import Rows
from memoranda_vector.table import Table

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


OFF_LOOP = 50_000_000
"""From this many values on, the product runs in a thread, so that it does not block the event loop."""

Part = tuple[int, int]
"""The number of a passage, and how many there are."""

_COPIED = 4
"""How much longer values take that have to be gathered first."""

_LONG_ITEMS = 64
"""How many long items are compared at a time."""

_BELOW_ALL = np.float32(-2)
"""The similarity by which zero vectors are ordered: below that of opposite vectors."""

OVERSAMPLING = 4
"""How many times more rows than wanted the index is asked for; their exact similarities decide."""

_AT_LEAST = 64
_AT_ONCE = 1_000
"""More changes than this are applied to the index in a thread."""


class Compared:
    """The similarity of each of some rows: that of its nearest passage, damped by the number of passages."""

    def __init__(self, first: NDArray[np.float32]) -> None:
        self.similarities = first
        self._places: dict[int, int] = {}
        self._ends: NDArray[np.intp]
        self._cosines: NDArray[np.float32]

    def look_further(
        self, rows: Rows, places: NDArray[np.intp], further: Sequence[Matrix], vector: Matrix, damping: float
    ) -> None:
        """Take the further passages of these rows, which are at these positions, into account."""
        counts = np.array([len(each) for each in further])
        # In chunks that fit the processor's cache, so that the vectors are never all copied.
        chunks = [further[start : start + _LONG_ITEMS] for start in range(0, len(further), _LONG_ITEMS)]
        found = np.concatenate([np.concatenate(chunk) @ vector for chunk in chunks])
        self._places = {row: place for place, row in enumerate(rows.tolist())}
        self._cosines = np.insert(found, np.cumsum(counts) - counts, self.similarities[places])
        self._ends = np.cumsum(counts + 1)
        nearest = np.maximum.reduceat(self._cosines, self._ends - counts - 1)
        self.similarities[places] = nearest / (counts + 1) ** damping

    def passage(self, row: int) -> Part | None:
        """Return the nearest passage of a row; None if the row has only one."""
        at = self._places.get(row)
        if at is None:
            return None
        found = self._cosines[self._ends[at - 1] if at else 0 : self._ends[at]]
        return int(found.round(6).argmax()), len(found)  # Equal vectors may differ in the last digit of float32.


def passage_text(content: str, part: Part | None) -> str:
    """Return the words of a passage; an empty text if there is only one."""
    return "" if part is None else passage_at(content, *part)


async def compare(table: Table, rows: Rows | None, vector: Matrix, damping: float) -> Compared:
    """Return the similarity of each row to a vector of length one; None stands for every row."""
    found = Compared(await _cosines(table, rows, vector))
    if not table.further:
        return found
    places = np.flatnonzero(table.divided[: len(found.similarities)] if rows is None else table.divided[rows])
    if len(places):
        long = places.astype(np.int32) if rows is None else rows[places]
        further = [table.further[row] for row in long.tolist()]
        work = partial(found.look_further, long, places, further, vector, damping)
        if sum(map(len, further)) * len(vector) < OFF_LOOP // _COPIED:
            work()
        else:
            await asyncio.to_thread(work)
    return found


async def _cosines(table: Table, rows: Rows | None, vector: Matrix) -> NDArray[np.float32]:
    """Return the cosine of each row's first vector with a vector of length one."""
    height = table.height
    if rows is None:
        return await _product(table, table.matrix[:height], vector)
    if len(rows) == 0:
        return np.zeros(0, dtype=np.float32)
    first, last = int(rows.min()), int(rows.max())
    # A range of which at least half is wanted is read whole: gathering rows costs more than multiplying them.
    if last - first < 2 * len(rows):
        found = await _product(table, table.matrix[first : last + 1], vector)
        return found[rows - first]
    return await _product(table, table.matrix[rows], vector)


async def _product(table: Table, matrix: Matrix, vector: Matrix) -> NDArray[np.float32]:
    if matrix.size < OFF_LOOP:
        product: NDArray[np.float32] = matrix @ vector
        return product
    table.readers += 1
    try:
        return await asyncio.to_thread(np.matmul, matrix, vector)
    finally:
        table.readers -= 1


def best(table: Table, rows: Rows | None, found: NDArray[np.float32], limit: int) -> list[tuple[int, float]]:
    """Return the rows with the highest similarities, best first; ties put the newest first.

    ``found`` are the similarities of the rows. Zero vectors have a similarity of 0 and come last. Items without text
    have no vector and are left out.
    """
    blank = table.blank_rows(rows, len(found))
    if blank is not None:
        with_text = np.flatnonzero(~blank).astype(np.int32)
        rows, found = with_text if rows is None else rows[with_text], found[with_text]
    zero = table.zero_rows(rows, len(found))
    order = found if zero is None else np.where(zero, _BELOW_ALL, found)
    if limit < len(order):
        least = np.partition(order, len(order) - limit)[len(order) - limit]
        chosen = np.flatnonzero(order >= least)
    else:
        chosen = np.arange(len(order))
    listed: Rows = chosen.astype(np.int32) if rows is None else rows[chosen]
    places = table.order(order[chosen], listed)[:limit]
    return list(zip(listed[places].tolist(), found[chosen][places].tolist(), strict=True))


class ApproximateIndex:
    """A graph index (usearch, HNSW), updated before each search.

    It holds the vectors in half precision; the rows that it finds are compared exactly.
    """

    def __init__(self, dimension: int) -> None:
        try:
            from usearch.index import Index
        except ImportError as error:
            remedy = f"Try: {how_to_install('memoranda-vector', 'ann')}"
            raise UnsupportedError("VectorMemoryStore", "ann=True without usearch", remedy=remedy) from error
        self._index: Any = Index(ndim=dimension, metric="ip", dtype="f16", multi=True)
        self._changed: set[int] = set()
        self._lock = LoopLock()

    def __len__(self) -> int:
        return len(self._index)

    def touch(self, rows: Iterable[int]) -> None:
        """Mark the vectors of these rows as new, changed or gone."""
        self._changed.update(rows)

    async def nearest(self, table: Table, vector: Matrix, limit: int) -> Rows:
        """Return rows that are probably the nearest: more than ``limit``, if there are so many."""
        async with self._lock.held():  # One search at a time: the index may be changing in a thread.
            await self._update(table)
            found = self._index.search(vector, max(limit * OVERSAMPLING, _AT_LEAST))
        return np.unique(np.asarray(found.keys, dtype=np.int64)).astype(np.int32)

    async def _update(self, table: Table) -> None:
        if not self._changed:
            return
        rows = np.fromiter(self._changed, dtype=np.int64, count=len(self._changed))
        self._changed = set()
        used = np.fromiter((row < table.height and table.items[row] is not None for row in rows), dtype=np.bool_)
        keys, vectors = rows[used], table.matrix[rows[used]]
        long = [row for row in keys.tolist() if row in table.further] if table.further else []
        if long:
            further = [table.further[row] for row in long]
            keys = np.concatenate([keys, np.repeat(long, list(map(len, further)))])
            vectors = np.concatenate([vectors, *further])
        if len(rows) > _AT_ONCE:
            await asyncio.to_thread(self._apply, rows, keys, vectors)
        else:
            self._apply(rows, keys, vectors)

    def _apply(self, changed: Any, used: Any, vectors: Matrix) -> None:
        indexed = changed[np.asarray(self._index.contains(changed))] if len(self._index) else changed[:0]
        if len(indexed):
            self._index.remove(indexed)
        if len(used):
            self._index.add(used, vectors)
