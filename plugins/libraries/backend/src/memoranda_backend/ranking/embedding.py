"""How stores call an embedder, an embedder that needs no model, and vectors as stores keep them.

Vectors are checked, of length one, and packed as little-endian float32.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from math import copysign, hypot, isfinite, sqrt
from statistics import fmean
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from memoranda.embeddings import Embeddings
from memoranda.errors import BadVectorError, EmbeddingError, MemoryError
from memoranda.loops import offload, word_weight
from memoranda.shapes import whole_number
from memoranda.store.backend import step
from memoranda_backend.text.terms import divided, is_short, query_terms

_FLOAT32_BYTES = 4


def checked_vector(vector: Iterable[float], dimension: int) -> array[float]:
    """Return the vector as float32, or raise BadVectorError.

    Refused are vectors that are no numbers, have another length, are empty, or hold values that are not finite or too
    large for float32. A vector of zeros is allowed.
    """
    # Lists are read several times faster than arrays of numpy, value by value.
    values: Any = vector.tolist() if hasattr(vector, "tolist") else vector
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise BadVectorError(f"a vector is a list of numbers, not {type(vector).__name__}")
    try:
        packed = array("f", values)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadVectorError(f"a vector is a list of numbers, not {type(vector).__name__}") from error
    if len(packed) != dimension:
        raise BadVectorError(f"it has {len(packed)} values instead of {dimension}")
    # Float32 sums cannot overflow in Python's floats, so the sum is finite just when every value is.
    if not packed or not isfinite(sum(packed)):
        raise BadVectorError("it is empty, or holds values that are not finite in float32")
    return packed


def normalised(vector: Sequence[float]) -> array[float]:
    """Return the vector with length one; zeros stay zeros."""
    length = hypot(*vector)
    if length == 0:
        return array("f", vector)
    return array("f", [value / length for value in vector])


def pack_vector(vector: Iterable[float], dimension: int) -> bytes:
    """Return a checked vector with length one as bytes, as SQLite keeps it."""
    packed = normalised(checked_vector(vector, dimension))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_vector(packed: bytes) -> array[float]:
    """Return the vector that :func:`pack_vector` packed."""
    vector = array("f")
    vector.frombytes(packed)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def cosines(query: Sequence[float], packed: Sequence[bytes]) -> list[float]:
    """Return the similarity of a vector to each of the packed ones, from -1 to 1; 0 where either is all zeros."""
    if not packed:
        return []
    if len(packed[0]) != len(query) * _FLOAT32_BYTES or len(set(map(len, packed))) != 1:
        raise BadVectorError("vectors of different lengths cannot be compared")
    matrix = np.frombuffer(b"".join(packed), dtype="<f4").reshape(-1, len(query))
    similarities: list[float] = (matrix @ np.asarray(normalised(query), np.float32)).tolist()
    return similarities


WHITESPACE = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Every character that Python takes for a space, for engines that look for text themselves."""


def has_text(content: str) -> bool:
    """Return True if a content is more than whitespace. Whitespace has no vector and is not found by meaning."""
    return bool(content.strip())


class HashingEmbeddings(Embeddings):
    """An embedder without a model: hashed words and character triples. For tests, demos and CI.

    It finds texts that share words or parts of words, and knows nothing of meaning. The same text has the same vector
    in every process and on every machine.
    """

    def __init__(self, dimension: int = 384) -> None:
        self._dimension = whole_number(dimension, "dimension", least=1)

    def __repr__(self) -> str:
        return f"HashingEmbeddings(dimension={self._dimension})"

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    def embed(self, text: str) -> list[float]:
        """Return the vector of one text; a text without words has the zero vector."""
        vector = [0.0] * self._dimension
        for term in query_terms(text):
            self._add(vector, term, 1.0)
            framed = f"<{term}>"
            for start in range(len(framed) - 2):
                self._add(vector, framed[start : start + 3], 0.3)
        return vector

    async def aembed(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return await offload(word_weight(len(text)), self.embed, text)

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order."""
        return await super().aembed_many(texts)  # It is its own: a search may ask for several texts at once.

    def _add(self, vector: list[float], feature: str, weight: float) -> None:
        """Add a feature at its place, with a sign of its own, so that features that share a place cancel out."""
        code = crc32(feature.encode())
        vector[(code >> 1) % self._dimension] += copysign(weight, 0.5 - (code & 1))


_UNRELATED_TEXTS = (
    "The meeting was moved to Thursday afternoon.",
    "She painted the kitchen walls light blue.",
    "Our train was late because of the snow.",
    "He learned to play the violin as a child.",
    "The soup needs more salt and pepper.",
    "They won the game in the last minute.",
    "The rent goes up next year.",
    "The cat slept on the windowsill all day.",
    "We watched a film about the ocean.",
    "The new printer does not work with my laptop.",
)
"""What has to do with hardly any query, nor with each other."""

_unrelated_vectors: WeakKeyDictionary[Embeddings, list[bytes]] = WeakKeyDictionary()
_failed: WeakKeyDictionary[Embeddings, float] = WeakKeyDictionary()

_PAUSE_SECONDS = 60.0
"""Seconds before an embedder that failed on these texts is asked for them again."""


_asked: ContextVar[dict[tuple[int, str], tuple[array[float], float]] | None] = ContextVar(
    "memoranda_query_vectors", default=None
)


@contextmanager
def one_embedding() -> Iterator[None]:
    """Ask an embedder for a query once, however many places are searched for it meanwhile."""
    token = _asked.set({})
    try:
        yield
    finally:
        _asked.reset(token)


async def embed_query(embeddings: Embeddings, query: str) -> tuple[array[float], float]:
    """Return the vector of a query, and the highest similarity that texts have which have nothing to do with it.

    Models differ widely in this, so what counts as alike is measured from here; the order of results does not depend
    on it. The highest means two standard deviations above the mean. The vectors of some such texts are asked for once,
    in one request with the first query, or in one of their own where the model wants queries otherwise. An embedder
    that takes one text at a time is not asked for them, and one that fails on them only after a minute again: a search
    must not wait for its scale, nor fail for it. For these it is 0, and a score is the cosine. Nothing is asked for a
    query without text.

    Raises what :func:`embed_texts` does.
    """
    known = _asked.get()
    key = (id(embeddings), query)
    if known is None:
        return await _embedded_query(embeddings, query)
    if key not in known:
        known[key] = await _embedded_query(embeddings, query)
    return known[key]


async def _embedded_query(embeddings: Embeddings, query: str) -> tuple[array[float], float]:
    vector = None
    if has_text(query) and not _is_measured(embeddings) and _embeds_many(embeddings):
        alike = type(embeddings).aembed_query is Embeddings.aembed_query
        try:
            made = await embed_texts(embeddings, [query, *_UNRELATED_TEXTS] if alike else _UNRELATED_TEXTS)
        except EmbeddingError:
            _failed[embeddings] = monotonic() + _PAUSE_SECONDS
        else:
            vector = made.pop(0) if alike else None
            _unrelated_vectors[embeddings] = [pack_vector(each, embeddings.dimension) for each in made]
    if vector is None:
        (vector,) = await embed_texts(embeddings, [query], query=True)
    return vector, _unrelated_similarity(embeddings, vector)


def _is_measured(embeddings: Embeddings) -> bool:
    """Return True if the scale of an embedder is known, or could not be had a moment ago."""
    return embeddings in _unrelated_vectors or monotonic() < _failed.get(embeddings, 0.0)


def _embeds_many(embeddings: Embeddings) -> bool:
    """Return True if an embedder takes several texts at once, also with the way of embedding one that it has now."""
    for cls in type(embeddings).__mro__:
        if "aembed_many" in vars(cls):
            return type(embeddings).aembed_many is not Embeddings.aembed_many
        if "aembed" in vars(cls):
            return False  # A subclass embeds one text otherwise, and several one by one.
    return False


def _unrelated_similarity(embeddings: Embeddings, query: Sequence[float]) -> float:
    known = _unrelated_vectors.get(embeddings)
    if known is None:
        return 0.0
    found = cosines(query, known)
    mean = fmean(found)
    return min(1.0, max(0.0, mean + 2 * sqrt(fmean((each - mean) ** 2 for each in found))))


async def embed_texts(embeddings: Embeddings, texts: Sequence[str], *, query: bool = False) -> list[array[float]]:
    """Return a checked vector for each text, as float32, not normalised; with ``query``, of what is looked for.

    This is how a store calls an embedder, which is not asked for a text that is nothing but whitespace: that has the
    vector of zeros. Raises BadVectorError for a vector of the wrong length, an empty one or one
    with values that are not finite; EmbeddingError when the provider fails or returns the wrong number of vectors.
    """
    asked = await offload(len(texts), _with_text, texts)
    vectors = await provided_vectors(embeddings, asked, query=query) if asked else []
    if not hasattr(vectors, "__len__"):
        raise BadVectorError(f"it is {type(vectors).__name__}, and a list of vectors was asked for")
    if len(vectors) != len(asked):
        raise EmbeddingError(
            f"{type(embeddings).__name__} returned {len(vectors)} vectors for {len(asked)} texts; nothing was changed."
        )
    dimension = embeddings.dimension
    checked = await offload(len(vectors), _all_checked, vectors, dimension)
    if len(checked) == len(texts):
        return checked
    made = iter(checked)
    return [next(made) if has_text(text) else array("f", [0.0]) * dimension for text in texts]


async def embed_passages(embeddings: Embeddings, texts: Sequence[str], size: float) -> list[list[array[float]]]:
    """Return the vectors of each text: one, or those of its passages of about ``size`` terms, where it has several.

    Everything else is as :func:`embed_texts` says, which is called once for all of them.
    """
    long = await offload(word_weight(sum(map(len, texts))), long_texts, texts, size)
    if not long:
        return [[vector] for vector in await embed_texts(embeddings, texts)]
    flat = [passage for place, text in enumerate(texts) for passage in long.get(place) or (text,)]
    made = iter(await embed_texts(embeddings, flat))
    return [list(islice(made, len(long[place]) if place in long else 1)) for place in range(len(texts))]


def long_texts(texts: Sequence[str], size: float) -> dict[int, list[str]]:
    """Return the passages of those texts that have several, by their places among the others."""
    found = {place: divided(text, size) for place, text in enumerate(texts) if not is_short(text, size)}
    return {place: passages for place, passages in found.items() if len(passages) > 1}


def _with_text(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if has_text(text)]


def _all_checked(vectors: Sequence[Sequence[float]], dimension: int) -> list[array[float]]:
    return [checked_vector(vector, dimension) for vector in vectors]


@step("embed")
async def provided_vectors(
    embeddings: Embeddings, texts: Sequence[str], *, query: bool = False
) -> Sequence[Sequence[float]]:
    """Return what the provider gives for the texts, not checked; its failures become EmbeddingErrors.

    For stores that check many vectors at once; others use :func:`embed_texts`.
    """
    try:
        if query:
            return [await embeddings.aembed_query(text) for text in texts]
        if len(texts) == 1:
            return [await embeddings.aembed(texts[0])]
        return await embeddings.aembed_many(texts)
    except MemoryError:
        raise
    except Exception as error:
        # The provider's message may hold what was to be embedded: it stays in the chain, out of the sentence.
        raise EmbeddingError(
            f"{type(embeddings).__name__} failed with {type(error).__name__}; nothing was changed."
        ) from error
