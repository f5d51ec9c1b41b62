"""Places in a hierarchy: how a namespace is compared, and how an engine can keep it as one text."""

from __future__ import annotations

from collections.abc import Sequence


def namespace_key(namespace: Sequence[str]) -> str:
    """Return a namespace as one text, whose beginnings are those of the namespaces above it.

    Every element ends in ``/``, so that ``("a",)`` is no beginning of ``("ab",)``; ``~1`` stands for a slash inside of
    an element and ``~0`` for a tilde. Lists of namespaces are in the order of these texts.
    """
    return "".join([element.replace("~", "~0").replace("/", "~1") + "/" for element in namespace])


def namespace_of(key: str) -> tuple[str, ...]:
    """Return the namespace that :func:`namespace_key` made this text from."""
    if "~" not in key:
        return tuple(key.split("/")[:-1])
    return tuple([element.replace("~1", "/").replace("~0", "~") for element in key.split("/")[:-1]])


def is_below(namespace: tuple[str, ...], place: tuple[str, ...]) -> bool:
    """Whether a namespace is a place or lies below it, element by element."""
    return namespace[: len(place)] == place


def key_bounds(place: Sequence[str]) -> tuple[str, str]:
    """Return the keys between which those of a place and of all below it lie: the first is one of them, the other none.

    For engines that compare texts by their characters' numbers. The root has no bounds: every key lies below it.
    """
    key = namespace_key(place)
    return key, key[:-1] + chr(ord("/") + 1)
