"""A provider's item as JSON text and back: whatever Python's own JSON can say, however deep, in ASCII.

A store keeps a payload as text and never looks into it, so that it comes back to the byte. Every engine can hold
ASCII, in which NUL and lone surrogates are escapes. Python's own encoder and decoder do the work; where they run out of
stack, the functions below do the same with a list for a stack.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda.shapes import json_value

_encode = json.JSONEncoder(separators=(",", ":")).encode
_scalar = json.JSONDecoder().raw_decode
_SPACE = re.compile(r"[ \t\n\r]*")


def encode_payload(value: Any) -> str:
    """Return a value as compact JSON in ASCII; keys keep their order, NaN and infinities are written as Python does.

    Objects of a provider's SDK become what they hold. Raises InputError for what JSON cannot hold.
    """
    try:
        return _encode(value)  # Most hold no objects of an SDK.
    except (TypeError, ValueError, RecursionError, MemoryError):
        value = plain(value)
    try:
        try:
            return _encode(value)
        except RecursionError:
            return "".join(_encoded(value))
    except (TypeError, ValueError, MemoryError) as error:
        raise InputError(
            f"A payload of type {type(value).__name__} holds what JSON cannot.", field="payload"
        ) from error


def decode_payload(text: str) -> Any:
    """Return the value of a payload. Raises InputError for text that is not JSON."""
    try:
        try:
            return json_value(text)
        except RecursionError:
            return _decoded(text)
    except (TypeError, ValueError, IndexError) as error:
        raise InputError("The payload is not JSON.", field="payload") from error


def plain(value: Any) -> Any:
    """Return a value with every object of an SDK in it as a plain dict, with only the fields that were set.

    Iterables that are no lists, which the types of the SDKs allow, become lists.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    try:
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, set, frozenset)):
            return [plain(inner) for inner in value]
    except RecursionError:
        pass  # No object of an SDK lies so deep; the encoder decides on the value.
    return value


def _encoded(value: Any) -> Iterator[str]:
    """Yield the pieces of a value's JSON. A container that is being written waits on the stack."""
    stack: list[Iterator[tuple[str, Any] | str]] = [iter([("", value)])]
    seen: set[int] = set()
    while stack:
        piece = next(stack[-1], None)
        if piece is None:
            stack.pop()
        elif isinstance(piece, str):
            yield piece
        else:
            before, inner = piece
            yield before
            if isinstance(inner, (dict, list, tuple)) and inner:
                stack.append(_inside(inner, seen))
            else:
                yield _encode(inner)


def _inside(container: Any, seen: set[int]) -> Iterator[tuple[str, Any] | str]:
    if id(container) in seen:
        raise ValueError("a value that holds itself")
    seen.add(id(container))
    pairs = container.items() if isinstance(container, dict) else ((None, inner) for inner in container)
    opening = "{" if isinstance(container, dict) else "["
    for key, inner in pairs:
        # A key is written by the encoder as well, which knows what may be one.
        yield opening if key is None else opening + _encode({key: 0})[1:-2], inner
        opening = ","
    yield "}" if isinstance(container, dict) else "]"
    seen.discard(id(container))


def _decoded(text: str) -> Any:
    """Return the value of a JSON text. Containers that are not closed yet wait on the stack."""
    whole: list[Any] = []
    stack: list[Any] = [whole]
    at = _token(text, 0)
    while not whole or len(stack) > 1:
        holder = stack[-1]
        if holder is not whole:
            if text[at] == ("}" if isinstance(holder, dict) else "]"):
                stack.pop()
                at = _token(text, at + 1)
                continue
            if holder:
                at = _token(text, _past(",", text, at))
        key = None
        if isinstance(holder, dict):
            key, at = _scalar(text, at)
            if not isinstance(key, str):
                raise ValueError("a key is not text")
            at = _token(text, _past(":", text, _token(text, at)))
        inner: Any
        if text[at] in "{[":
            inner = {} if text[at] == "{" else []
            stack.append(inner)
            at += 1
        else:
            inner, at = _scalar(text, at)
        if key is None:
            holder.append(inner)
        else:
            holder[key] = inner
        at = _token(text, at)
    if at != len(text):
        raise ValueError("there is text behind the value")
    return whole[0]


def _token(text: str, at: int) -> int:
    """Return where the next token starts."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _past(sign: str, text: str, at: int) -> int:
    """Return the position behind a sign, which must stand here."""
    if text[at] != sign:
        raise ValueError("a sign is missing")
    return at + 1
