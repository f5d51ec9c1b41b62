"""Putting layers into a store, and finding them there."""

from __future__ import annotations

from typing import Any, TypeVar

from memoranda.store.base import Store
from memoranda.store.engine import Layer

T = TypeVar("T")
LayerT = TypeVar("LayerT", bound=Layer)


def add_layer(store: Store, kind: type[LayerT], *given: Any, **named: Any) -> LayerT:
    """Put a layer between a store and its engine, and return it: ``kind(inner, *given, **named)`` makes it.

    It stands where :data:`memoranda.store.engine.LAYER_ORDER` says; of two with one place, the later one is inside.
    Requests of handles pass it, too. Given a handle, it is added to the store that the handle is bound in.
    """
    root: Store = store.root
    above: Layer = root._branches
    while isinstance(above.inner, Layer) and above.inner.place() <= kind.place():
        above = above.inner
    added = kind(above.inner, *given, **named)
    above.stand_on(added)
    # A layer has methods of what is inside of it, so that all have to look again, from the innermost on.
    for each in (root, *root._handles):
        for layer in reversed(each.layers):
            layer.stand_on(layer.inner)
    return added


def layer_of(store: Store, kind: type[T]) -> T | None:
    """Return the outermost layer of a store or handle that is of a class or protocol; None if there is none."""
    return next((layer for layer in store.layers if isinstance(layer, kind)), None)
