"""How a store was made: its class and arguments, so that another process can make one, and a program can name it."""

from __future__ import annotations

import functools
import inspect
import os
import pickle
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from memoranda.store import Store
from memoranda_testing.expect import NotReachedError, SkipCase

OpenStore = Callable[[], Store | Awaitable[Store]]
"""Returns a new store on the same data each time it is called, open or not."""


@dataclass(frozen=True)
class Recipe:
    """The class of a store and the arguments that it was made with."""

    kind: type[Store]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[str, ...] = field(default=(), compare=False)
    """The names of its layers when it was made. It may have got others since, which the arguments do not tell."""

    def __call__(self) -> Store:
        """Return another store that is made alike."""
        return self.kind(*self.arguments, **self.keywords)

    def __str__(self) -> str:
        """Return the call as it is written in a program; arguments that need an import have their names only."""
        given = [_written(each) for each in self.arguments]
        given += [f"{name}={_written(value)}" for name, value in self.keywords.items()]
        return f"{self.kind.__qualname__}({', '.join(given)})"

    def absent(self) -> tuple[Recipe, Path] | None:
        """Return how to make such a store whose file is not there, and that file; None if no argument names a file."""
        for place, value in enumerate(self.arguments):
            if (absent := _absent(value)) is not None:
                arguments = (*self.arguments[:place], type(value)(absent), *self.arguments[place + 1 :])
                return Recipe(self.kind, arguments, self.keywords), absent
        for name, value in self.keywords.items():
            if (absent := _absent(value)) is not None:
                return Recipe(self.kind, self.arguments, {**self.keywords, name: type(value)(absent)}), absent
        return None


_RECIPES: WeakKeyDictionary[Store, Recipe] = WeakKeyDictionary()


async def made_by(open_store: OpenStore, kind: type[Store] | None = None) -> Store:
    """Call the function, and remember how it made the store, if it made one of this class."""
    if kind is None:
        return await _made(open_store)
    original = kind.__init__

    @functools.wraps(original)
    def noted(self: Store, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if type(self) is kind:
            _RECIPES[self] = Recipe(kind, args, kwargs, _layer_names(self))

    with mock.patch.object(kind, "__init__", noted):
        return await _made(open_store)


async def _made(open_store: OpenStore) -> Store:
    store = open_store()
    return await store if inspect.isawaitable(store) else store


def recipe_of(store: Store) -> Recipe | None:
    """Return how a store was made, if that was seen."""
    return _RECIPES.get(store)


async def sendable(open_store: OpenStore, kind: type[Store]) -> OpenStore:
    """Return a function that opens the same data in another process: this one, or how it made the store.

    Raises NotReachedError if neither can be pickled, and SkipCase if the store got a layer after it was made, such as
    encryption, whose keys are this process's alone, or revisions.
    """
    made = await made_by(open_store, kind)
    recipe = recipe_of(made)
    got_layers = recipe is not None and recipe.layers != _layer_names(made)
    errors = []
    for opening in (open_store, None if got_layers else recipe):
        try:
            pickle.dumps(opening)
        except Exception as error:  # noqa: BLE001  # pickle raises what the arguments' classes raise
            errors.append(str(error))
        else:
            if opening is not None:
                return opening
    if got_layers:
        raise SkipCase(
            "the store has layers that another process cannot be given: its engine is tested without them. With "
            "'reopen' as a function of a module, or functools.partial of one, they are tested too"
        )
    raise NotReachedError(
        f"Another process cannot open the data: {errors[-1] if errors else 'it is not known how'}. Let the store take "
        f"arguments that can be pickled, or let 'reopen' be a function of a module, or functools.partial of one."
    )


def _layer_names(store: Store) -> tuple[str, ...]:
    return tuple(layer.name for layer in store.layers)


def _written(value: Any) -> str:
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    return repr(value) if isinstance(value, (str, int, float, bool, bytes, tuple, list, dict, type(None))) else "…"


def _absent(value: Any) -> Path | None:
    """Return a name beside the file that this argument names, where nothing lies; None if it names none."""
    if not isinstance(value, (str, Path)) or not value or not _is_there(value):
        return None
    path = Path(value)
    return path.with_name(f"absent-{path.name}")


def _is_there(value: str | Path) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):  # A text that cannot be the name of a file.
        return False
