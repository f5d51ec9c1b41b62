"""Values as text that comes back unchanged, and without running code that the bytes choose.

A redacting observer may take the digits of a random id for a phone number. The alphabet of the texts, and the sign
before each, rule that out.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from memoranda.errors import CorruptStoreError, InputError, StoreError, quoted

_SIGN = "_"
_FEW_DIGITS = 6


def is_safe(text: str) -> bool:
    """Return True if no observer takes a text for an address or a number."""
    return text.isascii() and "@" not in text and "%" not in text and sum(map(str.isdigit, text)) < _FEW_DIGITS


def packed(data: bytes) -> str:
    """Return bytes as text."""
    return _SIGN + base64.urlsafe_b64encode(data).decode()


def unpacked(text: str) -> bytes:
    """Return the bytes of a text. Raises ValueError or TypeError if :func:`packed` did not make it."""
    if not text.startswith(_SIGN):
        raise ValueError("the text was not packed")
    return base64.b64decode(text[1:].encode(), b"-_", validate=True)


def packed_json(value: Any) -> str:
    """Return a JSON value as text."""
    return packed(json.dumps(value).encode())


def unpacked_json(text: str) -> Any:
    """Return the value of a text. Raises ValueError or TypeError if :func:`packed_json` did not make it."""
    return json.loads(unpacked(text))


def comparable(text: str) -> str:
    """Return a text, such as an id, as hexadecimal digits with the same order."""
    return _SIGN + text.encode().hex()


KINDS = ("null", "bytes", "bytearray", "msgpack")
"""The kinds that are written. LangGraph could also read pickles and an older JSON, which can name any constructor."""

_MOST_NAMES, _MOST_LETTERS = 5, 80

_refused: ContextVar[dict[str, None] | None] = ContextVar("refused", default=None)
"""The types that the current read has refused so far."""


class RefusedTypeError(StoreError):
    """A stored value has a type that is not allowed. It was not read, and stays as it is.

    ``types`` are the names of these types, each once.
    """

    def __init__(self, types: Iterable[str], place: str = "A stored value") -> None:
        self.types = tuple(types)
        names = ", ".join(name[:_MOST_LETTERS] for name in self.types[:_MOST_NAMES])
        further = f" and {len(self.types) - _MOST_NAMES} more" if len(self.types) > _MOST_NAMES else ""
        super().__init__(
            f"{place} holds {names}{further}, which reading would import and call. Nothing was read. If these are "
            f"types of your program, allow them: MemorandaSaver(store, allowed_types=[…])."
        )


class CheckpointSerializer(JsonPlusSerializer):
    """LangGraph's serializer, which reads the types that LangGraph knows to be safe and those that you allow.

    The safe types are messages, documents, what graphs send and interrupt with, times, ids, numbers, collections, paths
    and arrays. ``allowed_types`` are classes, or pairs of a module and a name. A value of any other type raises an
    error instead of becoming a dict, so that no graph continues with, and stores again, something else than it had.
    """

    def __init__(self, allowed_types: Iterable[type | tuple[str, str]] = ()) -> None:
        super().__init__(allowed_msgpack_modules=_checked(allowed_types))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return a value. Raises RefusedTypeError, or CorruptStoreError for bytes that were never written."""
        if data[0] not in KINDS:
            raise CorruptStoreError(
                f"A stored value has an unknown kind, {str(data[0])[:20]!r}, and was not read. "
                f"The known kinds are {', '.join(KINDS)}."
            )
        refused: dict[str, None] = {}
        token = _refused.set(refused)
        try:
            value = super().loads_typed(data)
        except (ValueError, TypeError, RecursionError) as error:
            raise CorruptStoreError("A stored value is not what LangGraph's serializer writes.") from error
        finally:
            _refused.reset(token)
        if refused:
            raise RefusedTypeError(refused)
        return value


def _checked(allowed: Any) -> list[type | tuple[str, str]]:
    """Return the allowed types. Raises InputError for a value that is no type, or a class that cannot be imported."""
    if not isinstance(allowed, Iterable) or isinstance(allowed, str):
        raise _not_allowed(allowed)
    types = list(allowed)
    for each in types:
        if isinstance(each, type):
            if getattr(sys.modules.get(each.__module__), each.__name__, None) is not each:
                raise InputError(
                    f"{each.__module__}.{each.__qualname__} cannot be allowed: reading finds a class by its module and "
                    f"name, so it has to be at the top of its module.",
                    field="allowed_types",
                )
        elif not (isinstance(each, tuple) and len(each) == 2 and all(isinstance(part, str) for part in each)):
            raise _not_allowed(each)
    return types


def _not_allowed(value: object) -> InputError:
    return InputError(
        f"allowed_types must be a list of classes, or of pairs such as ('app.models', 'Plan'), not {quoted(value)}.",
        field="allowed_types",
    )


def _note(event: SerdeEvent) -> None:
    """Note that the serializer replaced a value whose type is not allowed by a plain one."""
    refused = _refused.get()
    if refused is not None and event["kind"] in ("msgpack_blocked", "msgpack_method_blocked"):
        method = event.get("method")
        refused[".".join(map(str, [event["module"], event["name"], *([method] if method else [])]))] = None


register_serde_event_listener(_note)
