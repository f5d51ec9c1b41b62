"""A provider's item as JSON text: whatever it holds, it comes back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from memoranda import HumanMemory, MemoryItem
from memoranda.errors import InputError
from memoranda_messages.payload_json import decode_payload, encode_payload

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int, innermost: Any, *, objects: bool) -> Any:
    for _ in range(depth):
        innermost = {"a b": 1, "in": innermost} if objects else [innermost, "x"]
    return innermost


@pytest.mark.rare
@given(ANYTHING)
def test_whatever_json_can_say_comes_back(value: Any) -> None:
    text = encode_payload(value)
    assert text.isascii()
    assert encode_payload(decode_payload(text)) == text
    assert text == json.dumps(value, separators=(",", ":"))


@pytest.mark.rare
@pytest.mark.parametrize("objects", [True, False])
@pytest.mark.parametrize("innermost", [None, "\0\ud800é", math.inf, {}, [], -1.5, {"k": []}])
def test_nesting_thousands_deep_comes_back(objects: bool, innermost: Any) -> None:
    text = encode_payload(nested(20_000, innermost, objects=objects))
    assert text.isascii()
    assert encode_payload(decode_payload(text)) == text
    spaced = text.replace(",", " ,\n").replace("{", "{ ").replace(":", "\t: ")
    assert encode_payload(decode_payload(spaced)) == text


@pytest.mark.parametrize("text", ["", "{", "[1", "{}x", '{"a"}', "[1 2]", "nul", "[" * 50_000, '{"a":' * 50_000])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not JSON"):
        decode_payload(text)


@pytest.mark.parametrize("spoilt", ["1", ",", "}", ":"])
def test_deep_text_that_is_no_json_is_refused(spoilt: str) -> None:
    text = encode_payload(nested(20_000, None, objects=False))
    for place in (0, len(text)):
        with pytest.raises(InputError):
            decode_payload(text[:place] + spoilt + text[place:])


@pytest.mark.parametrize("value", [{1, 2}, b"x", object()])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="JSON cannot"):
        encode_payload({"a": value})


@pytest.mark.parametrize("depth", [0, 20_000])
def test_a_value_that_holds_itself_is_refused(depth: int) -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(InputError):
        encode_payload(nested(depth, ring, objects=False))


def test_text_is_kept_as_it_is_and_an_object_is_encoded() -> None:
    assert HumanMemory(content="", payload='{ "a" : 1 }').payload == '{ "a" : 1 }'
    assert HumanMemory(content="", payload={"a": "\0\ud800"}).payload == '{"a":"\\u0000\\ud800"}'  # type: ignore[arg-type]  # anything is encoded
    assert MemoryItem(content="").payload is None


def test_an_object_of_an_sdk_is_encoded_with_the_fields_that_were_set() -> None:
    class Block(BaseModel):
        type: str = "text"
        text: str
        citations: list[str] | None = None

    assert encode_payload([Block(text="hi", citations=None)]) == '[{"text":"hi","citations":null}]'
