"""The ready-made redaction: what is hashed, what stays, and that a failure never stores the original."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda import AIMemory, HumanMemory, InputError, MemoryItem, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.store import InMemoryStore
from memoranda_guard.redactor import Redactor
from memoranda_messages import from_anthropic, to_anthropic


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
        "ada%40example.org",
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
        "+49 (0)170 1234567",
        "+49 (0) 170 / 123 45 67",
        "0049 (0)170-1234567",
        "(+49) 170 1234567",
        "＋４９ １７０ １２３４５６７",
        "+٤٩ ١٧٠ ١٢٣٤٥٦٧",
        "555‑123‑4567",
        "555\u2009123\u20094567",
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
    assert redactor.redact_text("+49 170 1234567") == redactor.redact_text("+49 (0)170 1234567")
    assert redactor.redact_text("+49 170 1234567") == redactor.redact_text("＋４９ １７０ １２３４５６７")
    assert redactor.redact_text("ada@example.org") == redactor.redact_text("ada%40example.org")


def test_different_addresses_have_different_hashes(redactor: Redactor) -> None:
    assert redactor.redact_text("ada@example.org") != redactor.redact_text("bob@example.org")


def test_the_same_key_gives_the_same_hash_and_another_key_another() -> None:
    assert Redactor("one").redact_text("a@b.org") == Redactor(b"one").redact_text("a@b.org")
    assert Redactor("one").redact_text("a@b.org") != Redactor("two").redact_text("a@b.org")


def test_without_a_key_every_redactor_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORANDA_REDACTION_KEY", raising=False)

    assert Redactor().redact_text("a@b.org") != Redactor().redact_text("a@b.org")


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_REDACTION_KEY", "one")

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


@given(st.text(alphabet='ab1 +-().@[]:e0é{}",%4', max_size=60))
def test_redacting_twice_changes_nothing(text: str) -> None:
    redactor = Redactor("k")
    once = redactor.redact_text(text)

    assert redactor.redact_text(once) == once


@pytest.mark.parametrize("part", ["a", "a.", "1 ", "@", '"', "(", "+1", "a@", "[", '["', '{"a":', "%40"])
def test_long_text_takes_linear_time(redactor: Redactor, part: str) -> None:
    def seconds(many: int) -> float:
        """Return what this thread works on it, however busy the machine is otherwise."""
        start = time.thread_time()
        redactor.redact_text(part * many)
        return time.thread_time() - start

    # Four times as much text: linear is 4 times the time, quadratic 16. Now and then garbage is collected meanwhile.
    most = 9 * min(seconds(12_500) for _ in range(3)) + 0.05
    assert any(seconds(50_000) < most for _ in range(3))


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


async def stored(item: MemoryItem) -> MemoryItem:
    """Return an item as a store that redacts keeps it."""
    store = InMemoryStore()
    store.observe(Redactor("k"))
    await store.add(item)
    found = await store.get(item.id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "extra",
    [
        {"id": "+15551234567"},
        {"id": 15551234567},
        {"id": {"id": "ada@example.org"}},
        {"tool_call_id": "ada@example.org"},
        {"contacts": [{"id": "ada@example.org"}, ["+1 555 123 4567"]]},
        {"ada@example.org": True},
        {"phone": 4915112345678},
        {"phones": [4915112345678, 5551234567.0]},
        {"to": '{"phone": 4915112345678, "mail": "ada\\u0040example.org"}'},
        {"to": '["ada\\u0040example.org"]'},
        {"to": '"ada\\u0040example.org"'},
    ],
)
async def test_nothing_in_extra_or_in_arguments_is_left_out(extra: dict[str, Any]) -> None:
    call = {"id": "c", "name": "dial", "arguments": extra, "function": {"arguments": json.dumps(extra)}}
    item = await stored(AIMemory(content="", tool_calls=[call], metadata=MemoryMetadata(extra=extra)))
    assert isinstance(item, AIMemory)
    for kept in (item.metadata.extra, item.tool_calls[0]["arguments"], item.tool_calls[0]["function"]):
        assert "[phone:" in str(kept) or "[email:" in str(kept)
        assert not re.search("ada|555|4915", str(kept))


async def test_only_the_id_of_a_call_itself_stays() -> None:
    call = {"id": "+15551234567", "name": "dial", "arguments": {"id": "+15551234567"}}
    item = await stored(AIMemory(content="", tool_calls=[call]))
    assert isinstance(item, AIMemory)
    assert item.tool_calls[0]["id"] == "+15551234567"
    assert item.tool_calls[0]["arguments"]["id"].startswith("[phone:")


async def test_arguments_that_are_json_stay_json() -> None:
    arguments = '{"to": 4915112345678, "times": 2}'
    item = await stored(AIMemory(content="", tool_calls=[{"id": "c", "function": {"arguments": arguments}}]))
    assert isinstance(item, AIMemory)
    read = json.loads(item.tool_calls[0]["function"]["arguments"])
    assert read["to"].startswith("[phone:")
    assert read["times"] == 2


async def test_json_without_addresses_stays_as_it_was_written() -> None:
    text = '{ "order" : 123456,  "pi": 3.10 }'
    assert (await stored(ToolMemory(content=text))).content == text


async def test_a_number_has_the_hash_of_its_text() -> None:
    item = await stored(HumanMemory(content="+49 151 12345678", metadata=MemoryMetadata(extra={"to": 4915112345678})))
    assert item.metadata.extra["to"] == item.content


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("when", 1_763_190_000),
        ("when", 1_763_190_000_000),
        ("when", 1_763_190_000.25),
        ("when", 20261115020000),
        ("bytes", 5_551_234_567),
        ("fileSize", 5_551_234_567),
        ("total_tokens", 5_551_234_567),
        ("schema_version", 5_551_234_567),
        ("distance", 5_551_234_567.5),
        ("order", 123_456_789),
        ("snowflake", 1_234_567_890_123_456_789),
        ("balance", -5_551_234_567),
        ("flag", True),
    ],
)
async def test_times_quantities_and_other_numbers_stay(key: str, number: float) -> None:
    item = await stored(HumanMemory(content="", metadata=MemoryMetadata(extra={key: number})))
    assert item.metadata.extra == {key: number}


async def test_what_a_store_needs_to_know_stays() -> None:
    item = HumanMemory(content="", id="+15551234567", metadata=MemoryMetadata(user_id="ada@example.org"))
    kept = await stored(item)
    assert (kept.id, kept.metadata.user_id) == (item.id, item.metadata.user_id)
    assert (kept.created_at, kept.version) == (item.created_at, 1)


async def test_a_summary_keeps_the_ids_of_its_sources() -> None:
    ids = ["+15551234567", "+15551234568"]
    summary = SummaryMemory(content="call +15551234567", sources=ids, archives={ids[0]: "mark"}, compaction=ids[1])
    kept = await stored(summary)
    assert isinstance(kept, SummaryMemory)
    assert (kept.sources, kept.archives, kept.compaction) == (ids, {ids[0]: "mark"}, ids[1])
    assert kept.content.startswith("call [phone:")


async def test_two_ways_to_write_an_address_stay_two_keys() -> None:
    extra = {"ada@example.org": 1, "ADA@example.org": 2}
    item = await stored(HumanMemory(content="", metadata=MemoryMetadata(extra=extra)))
    assert sorted(item.metadata.extra.values()) == [1, 2]
    assert "example.org" not in str(item.metadata.extra)


async def test_names_of_tools_and_of_further_fields_are_searched() -> None:
    item = await stored(ToolMemory(content="", tool_name="dial +15551234567", **{"ada@example.org": "bob@example.org"}))
    assert isinstance(item, ToolMemory)
    assert item.tool_name.startswith("dial [phone:")
    assert "5551234567" not in item.model_dump_json()
    assert "example.org" not in item.model_dump_json()


async def test_what_an_item_keeps_of_a_providers_message_still_goes_out() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "ada@example.org", "signature": "s"},
        {"type": "tool_use", "id": "+15551234567", "name": "dial", "input": {"to": "+15551234567"}},
    ]
    call, result = from_anthropic(
        [
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "+15551234567", "content": "done"}]},
        ]
    )
    _, messages = to_anthropic([await stored(call), await stored(result)])
    assert [block["type"] for block in messages[0]["content"]] == ["thinking", "tool_use"]
    assert messages[0]["content"][1]["id"] == messages[1]["content"][0]["tool_use_id"]
    assert "example.org" not in str(messages)
    assert messages[0]["content"][1]["input"]["to"].startswith("[phone:")


async def test_the_payload_of_an_item_is_searched_and_stays_what_a_store_takes() -> None:
    payload = json.dumps({"a": "\ud800 ada@example.org", "b": "\0"})
    item = await stored(HumanMemory(content="", payload=payload, payload_format="p+15551234567", group="+15551234567"))
    assert item.payload is not None
    assert "example.org" not in item.payload
    assert json.loads(item.payload)["b"] == "\0"
    assert (item.payload_format, item.group) == ("p+15551234567", "+15551234567")


SECRETS = st.sampled_from(
    [
        "ada@example.org",
        "+1 555 123 4567",
        4915112345678,
        '{"to":"ada@example.org"}',
        "0049 (0)170-1234567",
        5551234567.0,
    ]
)
KEYS = st.sampled_from(["id", "tool_call_id", "name", "to", "x", "phone", "ada@example.org"])
NESTED = st.recursive(
    SECRETS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@given(NESTED, st.sampled_from(["extra", "arguments", "text", "field", "result"]))
async def test_no_address_is_left_anywhere(value: Any, place: str) -> None:
    arguments = json.dumps(value) if place == "text" else value if place == "arguments" else {}
    item = await stored(
        AIMemory(
            content=json.dumps(value) if place == "result" else "",
            tool_calls=[{"id": "c", "name": "f", "arguments": arguments}],
            metadata=MemoryMetadata(extra={"id": value} if place == "extra" else {}),
            **({"note": value} if place == "field" else {}),
        )
    )
    shown = json.dumps([item.content, item.tool_calls, item.metadata.extra, item.model_extra])  # type: ignore[attr-defined]  # it is an AIMemory
    assert not re.search(r"example\.org|123.?4567|4915112345678|5551234567|170", shown)


async def test_the_callers_item_is_not_changed() -> None:
    store = InMemoryStore()
    store.observe(Redactor("k"))
    item = HumanMemory(content="ada@example.org")

    await store.add(item)

    assert item.content == "ada@example.org"


async def test_a_store_can_ask_for_the_redaction_by_name() -> None:
    async with memoranda.open("memory://", observers=["redact"]) as store:
        item = HumanMemory(content="ada@example.org")
        await store.add(item)
        stored = await store.get(item.id)

    assert stored is not None
    assert stored.content.startswith("[email:")


async def test_a_store_that_does_not_ask_for_it_keeps_the_text() -> None:
    async with memoranda.open("memory://") as store:
        item = HumanMemory(content="ada@example.org")
        await store.add(item)
        stored = await store.get(item.id)

    assert stored is not None
    assert stored.content == "ada@example.org"
