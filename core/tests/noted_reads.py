"""Layers that note what is read, and change nothing of it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from memoranda.store.backend import Engine, Layer, Query


class NotesReads(Layer):
    """Notes what is read; what stays is not asked for with the rest, since a layer may change pages."""

    name = "notes"

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.queries: list[Query[Any]] = []

    def read(self, query: Query[Any]) -> Coroutine[Any, Any, list[Any]]:
        self.queries.append(query)
        return self.inner.read(query)


class NotesSingleReads(NotesReads):
    """Notes what is read, where pages stay as they are, so that all a window shows may be one read."""

    keeps_pages = True
