"""Layers that plugins put into a store: where they stand, and that every request passes them."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from memoranda import HumanMemory
from memoranda.store import InMemoryStore, Store
from memoranda.store.backend import Engine, Layer, Query
from memoranda.store.engine import LAYER_ORDER
from memoranda.store.layers import add_layer, layer_of

T = TypeVar("T")


class Noting(Layer):
    """Writes down what is asked of the engine."""

    name = "noting"

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.asked: list[Query[Any]] = []

    def narrow(self, query: Query[T]) -> Query[T]:
        self.asked.append(query)
        return query


class Innermost(Noting):
    name = "encryption"


class Outermost(Noting):
    name = "telemetry"


def names(store: Store) -> list[str]:
    return [layer.name for layer in store.layers]


def test_a_store_has_its_layers_in_the_order_that_is_written_down() -> None:
    store = InMemoryStore()
    assert names(store) == ["observers", "lifetimes", "branches"]
    assert names(store.scoped(user_id="ada")) == ["scope", "observers", "lifetimes", "branches"]
    assert LAYER_ORDER[1:5] == tuple(names(store.scoped(user_id="ada")))


@pytest.mark.parametrize(
    "kinds", [(Innermost, Noting, Outermost), (Outermost, Innermost, Noting), (Noting, Innermost, Outermost)]
)
def test_a_layer_has_its_place_whenever_it_comes(kinds: tuple[type[Noting], ...]) -> None:
    store = InMemoryStore()
    handle = store.scoped(user_id="ada")
    for kind in kinds:
        add_layer(store, kind)
    assert names(store)[3:] == ["telemetry", "noting", "encryption"]
    assert names(handle) == ["scope", *names(store)]
    assert store.layers[-1].inner is store.bottom


def test_of_two_layers_with_one_place_the_later_one_is_inside() -> None:
    store = InMemoryStore()
    first, second = add_layer(store, Noting), add_layer(store, Noting)
    assert store.layers[-2:] == [first, second]


async def test_requests_of_a_store_and_of_handles_made_before_pass_a_layer() -> None:
    store = InMemoryStore()
    handle = store.scoped(user_id="ada")
    inner = handle.scoped(session_id="s")
    await inner.add(HumanMemory(content="tea"))
    noting = add_layer(handle, Noting)
    for each in (store, handle, inner):
        assert await each.count() == 1
        assert len(await each.search()) == 1
        assert len([item async for item in each.scan()]) == 1
    assert len(noting.asked) == 9


def test_a_layer_is_found_by_its_class() -> None:
    store = InMemoryStore()
    assert layer_of(store, Noting) is None
    added = add_layer(store, Innermost)
    assert layer_of(store.scoped(user_id="ada"), Noting) is added
