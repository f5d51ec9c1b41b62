"""A store as the contract describes it, written to be read: rows in the order of their adding, and ``Filter.matches``.

It has no index, no page and no await. Every public method of a store is here under its own name, and returns what the
store must return; where the contract leaves two answers open, the answer says so (:class:`AtMost`, :class:`Refused`).
"""

from __future__ import annotations

from memoranda.items import MemoryMetadata
from memoranda_testing.model.reading import Reading
from memoranda_testing.model.removing import Removing
from memoranda_testing.model.rows import AtMost, Refused, State
from memoranda_testing.model.writing import Writing


class ModelHandle(Reading, Writing, Removing):
    """The public methods of a store, plain or bound to a scope."""


class Model(State):
    """What a store holds, and what it has seen of the time."""

    def handle(self, scope: MemoryMetadata | None = None) -> ModelHandle:
        """Return the model as a plain store, or as a handle that is bound to a scope."""
        return ModelHandle(self, scope)


__all__ = ["AtMost", "Model", "ModelHandle", "Refused"]
