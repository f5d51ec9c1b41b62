"""Vectors as stores keep them: checked, of length one, packed as little-endian float32."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from math import hypot, isfinite
from typing import Any

import numpy as np

from memoranda.errors import BadVectorError

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
