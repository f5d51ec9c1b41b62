"""Vectors one after the other; more can be appended without copying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from memoranda_ranking import cosines, normalised

if TYPE_CHECKING:
    import numpy

_FLOAT32_BYTES = 4
_SPARE = 8
"""One in how many vectors of an array is spare, in addition to a few."""
_FEW = 64
_COPIED_AT_ONCE = 1_000


class PackedVectors:
    """Vectors as they are stored, for use without numpy: each is compared by itself."""

    def __init__(self, dimension: int, packed: Sequence[bytes]) -> None:
        width = dimension * _FLOAT32_BYTES
        self._dimension = dimension
        self._packed = [vector[at : at + width] for vector in packed for at in range(0, len(vector), width)]

    def __len__(self) -> int:
        return len(self._packed)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self._packed) * self._dimension * _FLOAT32_BYTES

    def followed_by(self, packed: Sequence[bytes]) -> PackedVectors:
        """Return these vectors and further ones."""
        longer = PackedVectors(self._dimension, packed)
        longer._packed = [*self._packed, *longer._packed]
        return longer

    def cosines(self, vector: Sequence[float]) -> list[float]:
        """Return the similarity of each to a vector."""
        return cosines(vector, self._packed)


class _SpareArray:
    """An array with spare room at its end."""

    def __init__(self, vectors: numpy.ndarray[Any, Any]) -> None:
        self.vectors = vectors
        self.used = 0

    def add(self, packed: Sequence[bytes]) -> None:
        """Append vectors."""
        import numpy

        for start in range(0, len(packed), _COPIED_AT_ONCE):
            some = b"".join(packed[start : start + _COPIED_AT_ONCE])
            added = numpy.frombuffer(some, dtype="<f4").reshape(-1, self.vectors.shape[1])
            self.vectors[self.used : self.used + len(added)] = added
            self.used += len(added)


class ArrayOfVectors:
    """Vectors in a numpy array. Longer versions share its room, so that appending a few copies nothing else."""

    def __init__(self, room: _SpareArray) -> None:
        self._room = room
        self._length = room.used

    def __len__(self) -> int:
        return self._length

    @property
    def size(self) -> int:
        """The size in bytes, with the spare room."""
        return int(self._room.vectors.nbytes)

    def followed_by(self, packed: Sequence[bytes]) -> ArrayOfVectors:
        """Return these vectors and further ones; only one caller at a time may append."""
        room, vectors = self._room, self._room.vectors
        added = sum(map(len, packed)) // (vectors.shape[1] * _FLOAT32_BYTES)
        # Another caller may have used the room after these.
        if room.used != self._length or self._length + added > len(vectors):
            room = _spare_array(vectors.shape[1], self._length + added)
            room.vectors[: self._length] = vectors[: self._length]
            room.used = self._length
        room.add(packed)
        return ArrayOfVectors(room)

    def cosines(self, vector: Sequence[float]) -> numpy.ndarray[Any, Any]:
        """Return the similarity of each to a vector."""
        import numpy

        found: numpy.ndarray[Any, Any] = self._room.vectors[: self._length] @ numpy.asarray(normalised(vector), "f4")
        return found


AnyVectors: TypeAlias = PackedVectors | ArrayOfVectors


def vectors_of(dimension: int, packed: Sequence[bytes]) -> AnyVectors:
    """Return vectors, in an array if numpy is installed. Each element may hold several."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        return PackedVectors(dimension, packed)
    room = _spare_array(dimension, sum(map(len, packed)) // (dimension * _FLOAT32_BYTES))
    room.add(packed)
    return ArrayOfVectors(room)


def _spare_array(dimension: int, count: int) -> _SpareArray:
    import numpy

    return _SpareArray(numpy.empty((count + count // _SPARE + _FEW, dimension), dtype="<f4"))
