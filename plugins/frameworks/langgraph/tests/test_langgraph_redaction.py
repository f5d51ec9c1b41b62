"""What is redacted before it is stored is what people say, and never what LangGraph finds its own by."""

from __future__ import annotations

import random
import uuid
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

from memoranda.store import InMemoryStore
from memoranda_guard import Redactor
from memoranda_langgraph import MemorandaSaver, MemorandaStore

LOOKS_LIKE_A_PHONE = ["12345678-1234-4123-9123-abcdefabcdef", "+49 170 1234567", "4915112345678", "a:0049151234567"]


def redacted() -> InMemoryStore:
    store = InMemoryStore()
    store.observe(Redactor(key="secret"))
    return store


async def test_values_are_redacted_and_keys_lead_to_them() -> None:
    adapter = MemorandaStore(redacted())
    for key in [*LOOKS_LIKE_A_PHONE, "ada@example.org", str(uuid.UUID(int=random.Random(1).getrandbits(128)))]:
        await adapter.aput(("a",), key, {"said": "call +49 170 1234567"})

    for item in await adapter.asearch(("a",)):
        assert "1234567" not in item.value["said"]
        found = await adapter.aget(("a",), item.key)
        assert found is not None
        assert found.value == item.value


async def test_vectors_and_checkpoints_are_kept_to_the_byte() -> None:
    store = redacted()
    saver = MemorandaSaver(store)
    random_bytes = random.Random(3)
    for thread in LOOKS_LIKE_A_PHONE:
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": f"n:{thread}|m"}}
        made = []
        for checkpoint_id in ("12345678-1234-6123-9123-1234567890ab", "12345678-1235-6123-9123-1234567890ab"):
            data = random_bytes.randbytes(2000)
            checkpoint = {**empty_checkpoint(), "id": checkpoint_id, "channel_values": {"data": data}}
            config = await saver.aput(config, checkpoint, {"run_id": thread, "step": 1}, {})  # type: ignore[arg-type]
            await saver.aput_writes(config, [(thread, data)], thread, thread)
            made.append((config, data))

        (first, _), (last, data) = made
        found = await saver.aget_tuple(last)
        assert found is not None
        assert (found.config, found.parent_config) == (last, first)
        assert found.checkpoint["channel_values"] == {"data": data}
        assert found.pending_writes == [(thread, thread, data)]
        assert [each.config async for each in saver.alist(None, filter={"run_id": thread})] == [last, first]
        assert [each.config async for each in saver.alist(None, filter={"run_id": thread}, before=last)] == [first]

        await saver.adelete_for_runs([thread])
        assert await saver.aget_tuple(last) is None
