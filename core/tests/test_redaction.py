"""The ready-made redaction: what is hashed, what stays, and that a failure never stores the original."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recollect
from recollect import AIMemory, HumanMemory, InputError, MemoryMetadata, ToolMemory
from recollect.in_memory import InMemoryStore
from recollect.redaction import Redactor


@pytest.fixture
def redactor() -> Redactor:
    return Redactor("a key for tests")


@pytest.mark.parametrize(
    "address",
    [
        "ada@example.org",
        "Ada.Lovelace+notes@mail.example.co.uk",
        "o'neil@example.org",
        "јован@пример.срб",
        '"ada lovelace"@example.org',
        "ada@[192.168.0.1]",
        "ada＠example.org",
    ],
)
def test_an_email_address_is_replaced(redactor: Redactor, address: str) -> None:
    redacted = redactor.redact_text(f"write to <{address}>, please")

    assert redacted.startswith("write to <[email:")
    assert redacted.endswith("]>, please")
    assert "@" not in redacted


@pytest.mark.parametrize(
    "number",
    [
        "+1 (555) 123-4567",
        "+15551234567",
        "+49 170 1234567",
        "0049 170 1234567",
        "(0)20 7946 0958",
        "01 23 45 67 89",
        "612 345 678",
        "555-1234",
        "555.123.4567",
        "5551234567",
        "1-555-123-4567",
    ],
)
def test_a_phone_number_is_replaced(redactor: Redactor, number: str) -> None:
    redacted = redactor.redact_text(f"call {number}, please")

    assert redacted.startswith("call [phone:")
    assert redacted.endswith("], please")
    assert not any(character.isdigit() for character in redacted)


@pytest.mark.parametrize(
    "text",
    [
        "on 2026-11-15 02:00 we met",
        "15.11.2026",
        "11/15/2026",
        "2026-11-15T02:00:16.123456+00:00",
        "redis at 127.0.0.1:6379",
        "pi is 3.14159265358",
        "1,234,567,890 people",
        "order 123456",
        "commit 1234567890abcdef",
        "https://example.org/status/1234567890123",
        "4111 1111 1111 1111 222",
        "someone@localhost",
    ],
)
def test_other_numbers_and_signs_stay(redactor: Redactor, text: str) -> None:
    assert redactor.redact_text(text) == text


def test_an_address_has_one_hash_however_it_is_written(redactor: Redactor) -> None:
    assert redactor.redact_text("Ada@Example.org") == redactor.redact_text("ada@example.org")
    assert redactor.redact_text("+1 (555) 123-4567") == redactor.redact_text("+15551234567")
    assert redactor.redact_text("+49 170 1234567") == redactor.redact_text("0049-170-1234567")


def test_different_addresses_have_different_hashes(redactor: Redactor) -> None:
    assert redactor.redact_text("ada@example.org") != redactor.redact_text("bob@example.org")


def test_the_same_key_gives_the_same_hash_and_another_key_another() -> None:
    assert Redactor("one").redact_text("a@b.org") == Redactor(b"one").redact_text("a@b.org")
    assert Redactor("one").redact_text("a@b.org") != Redactor("two").redact_text("a@b.org")


def test_without_a_key_every_redactor_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOLLECT_REDACTION_KEY", raising=False)

    assert Redactor().redact_text("a@b.org") != Redactor().redact_text("a@b.org")


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_REDACTION_KEY", "one")

    assert Redactor().redact_text("a@b.org") == Redactor("one").redact_text("a@b.org")


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(InputError):
        Redactor("")


def test_the_key_is_not_in_the_repr() -> None:
    assert "secret" not in repr(Redactor("secret"))


def test_either_kind_can_be_left_alone() -> None:
    text = "a@b.org +15551234567"

    assert "a@b.org" in Redactor("k", emails=False).redact_text(text)
    assert "+15551234567" in Redactor("k", phones=False).redact_text(text)


@given(st.text(alphabet="ab1 +-().@[]:e0é", max_size=60))
def test_redacting_twice_changes_nothing(text: str) -> None:
    redactor = Redactor("k")
    once = redactor.redact_text(text)

    assert redactor.redact_text(once) == once


@pytest.mark.parametrize("part", ["a", "a.", "1 ", "@", '"', "(", "+1", "a@"])
def test_long_text_takes_linear_time(redactor: Redactor, part: str) -> None:
    start = time.perf_counter()
    redactor.redact_text(part * 50_000)

    assert time.perf_counter() - start < 2


async def test_a_store_keeps_only_hashes_at_any_depth() -> None:
    store = InMemoryStore()
    store.observe(Redactor("k"))
    item = AIMemory(
        content="ada@example.org",
        name="Bob <bob@example.org>",
        tool_calls=[{"id": "call_5551234567", "name": "dial", "arguments": {"to": ["+1 555 123 4567"]}}],
        metadata=MemoryMetadata(extra={"reply": {"to": "eve@example.org"}, "count": 5551234567}),
        note={"phone": "555-1234"},
    )

    await store.add(item)
    stored = await store.get(item.id)

    assert stored is not None
    dumped = stored.model_dump_json()
    assert "example.org" not in dumped
    assert "555 123" not in dumped
    assert "555-1234" not in dumped
    assert stored.metadata.extra["count"] == 5551234567


async def test_ids_stay_so_that_calls_still_find_their_results() -> None:
    store = InMemoryStore()
    store.observe(Redactor("k"))
    call = AIMemory(content="", tool_calls=[{"id": "+15551234567", "name": "dial"}])
    result = ToolMemory(content="done", tool_call_id="+15551234567")

    await store.add_many([call, result])
    found = {item.memory_type: item for item in await store.search()}

    assert found["ai"].tool_calls[0]["id"] == found["tool"].tool_call_id == "+15551234567"


async def test_the_callers_item_is_not_changed() -> None:
    store = InMemoryStore()
    store.observe(Redactor("k"))
    item = HumanMemory(content="ada@example.org")

    await store.add(item)

    assert item.content == "ada@example.org"


async def test_a_store_can_ask_for_the_redaction_by_name() -> None:
    async with recollect.open("memory://", observers=["redact"]) as store:
        item = HumanMemory(content="ada@example.org")
        await store.add(item)
        stored = await store.get(item.id)

    assert stored is not None
    assert stored.content.startswith("[email:")


async def test_a_store_that_does_not_ask_for_it_keeps_the_text() -> None:
    async with recollect.open("memory://") as store:
        item = HumanMemory(content="ada@example.org")
        await store.add(item)
        stored = await store.get(item.id)

    assert stored is not None
    assert stored.content == "ada@example.org"
