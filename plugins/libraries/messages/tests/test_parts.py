"""Parts of every format are read alike, and written where the format has a place for them."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda import HumanMemory
from memoranda_messages import (
    Dropped,
    Part,
    from_anthropic,
    from_openai,
    from_responses,
    parts_of,
    to_anthropic,
    to_openai,
    to_responses,
)

PNG = "iVBORw0KGgo="
URL = f"data:image/png;base64,{PNG}"
PDF = Part("file", media_type="application/pdf", data="JVBERi0=", name="a.pdf")
CHAT: list[Any] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look"},
            {"type": "image_url", "image_url": {"url": URL}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
        ],
    }
]
RESPONSES: list[Any] = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Look"},
            {"type": "input_image", "image_url": URL, "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        ],
    }
]
ANTHROPIC: list[Any] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "a.pdf",
            },
        ],
    }
]
FORMATS: dict[str, tuple[Any, Any, list[Any]]] = {
    "chat": (from_openai, to_openai, CHAT),
    "responses": (from_responses, to_responses, RESPONSES),
    "anthropic": (from_anthropic, lambda items, **options: to_anthropic(items, **options)[1], ANTHROPIC),
}


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_images_and_files_go_from_every_format_to_every_other(source: str, target: str) -> None:
    read, _, given = FORMATS[source]
    _, write, expected = FORMATS[target]
    dropped: list[Dropped] = []

    items = read(given)

    assert parts_of(items[0]) == [Part("image", media_type="image/png", data=PNG), PDF]
    assert write(items, dropped=dropped) == expected
    assert dropped == []


def test_an_image_by_url_stays_one() -> None:
    items = from_anthropic(
        [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}],
            }
        ]
    )

    assert to_openai(items)[0]["content"] == [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]


def test_an_image_in_a_result_has_a_place_in_two_of_three() -> None:
    items = from_anthropic(
        [
            {"role": "user", "content": "Look"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [ANTHROPIC[0]["content"][1]]}],
            },
        ]
    )
    dropped: list[Dropped] = []

    assert to_responses(items)[2]["output"] == [{"type": "input_image", "image_url": URL, "detail": "auto"}]
    assert to_openai(items, dropped=dropped)[2] == {"role": "tool", "content": "", "tool_call_id": "c1"}
    assert [loss.what for loss in dropped] == ["image"]


def test_the_parts_of_an_item_that_was_changed_no_longer_count() -> None:
    (item,) = from_openai(CHAT)
    item.content = "Something else"
    dropped: list[Dropped] = []

    assert parts_of(item) == []
    assert to_responses([item], dropped=dropped) == [{"role": "user", "content": "Something else"}]
    assert "image_url" in {loss.what for loss in dropped}


@pytest.mark.parametrize(
    "payload",
    [
        "no JSON",
        "[]",
        '{"message": {}, "parts": 5}',
        '{"message": {}, "parts": [5, {"kind": "virus"}], "fields": ""}',
        '{"of": "nowhere", "parts": [{"kind": "image", "data": {"at": "/a"}}]}',
    ],
)
def test_a_forged_frame_has_no_parts(payload: str) -> None:
    item = HumanMemory(content="Hi", payload=payload, payload_format="other")

    assert parts_of(item) == []
    assert to_openai([item]) == [{"role": "user", "content": "Hi"}]


def test_a_part_shows_no_content() -> None:
    assert PNG not in repr(Part("image", media_type="image/png", data=PNG))
