"""Writing items: a batch is one script, which does all of it or nothing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from memoranda.errors import IdConflictError, InputError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata, now_text
from memoranda.shapes import json_text
from memoranda.store import copy_item
from memoranda.store.backend import Change, Page, Write, Written, end_of_life, metadata_matches
from memoranda_redis._filters import scope_conditions, script_filter
from memoranda_redis._reading import PAGE, Reading
from memoranda_redis._records import folded, item_body, item_header, milliseconds, read_stored
from memoranda_redis._removing_scripts import TAKE
from memoranda_redis._writing_scripts import PUT, TOUCH

_MOST_AT_ONCE = 100_000
"""The most items of one atomic write."""


class Writing(Reading):
    """The writing part of the engine."""

    async def _put(self, write: Write) -> Written:
        """Do all of a write or nothing."""
        items = write.adds
        if len(items) + len(write.deletes) > _MOST_AT_ONCE:
            raise InputError(f"At most {_MOST_AT_ONCE} items can be written at once.", field="items")
        now = write.now or now_text()
        written: list[str] = []
        for item in items:
            written += [
                item_header(item, item.version if write.compared else None, now, hidden=item.id in write.hidden),
                item_body(item),
                item.content,
                folded(item.content),
            ]
        # The caller may change items as soon as something is awaited.
        if write.compared or (write.within is not None and write.within.extra):
            items = [copy_item(item) for item in items]
        while True:
            asked = await self._write_request(write.but(adds=items), now)
            arguments = [uuid.uuid4().hex, json_text(asked), *written]
            answer = await self.run(PUT, arguments, patience=len(items) / 100)
            if answer[0] == b"done":
                return Written(int(answer[1]), _stored(items, answer[2:]) if write.compared else ())
            if (
                answer[0] == b"head"
                and write.expected is not None
                and not script_filter(write.expected.conversation)[1]
            ):
                write.expected.check(answer[1].decode() or None)
            if answer[0] in (b"again", b"head"):
                continue
            refused = items[answer[1] - 1]
            if answer[0] == b"taken":
                raise IdConflictError(refused.id)
            expected = 0 if write.must_be_new(refused.id) else refused.version
            raise VersionConflictError(refused.id, expected, None if answer[2] < 0 else answer[2])

    async def _write_request(self, write: Write, now: str) -> dict[str, Any]:
        """Return a write as the script takes it, after comparing what only Python can."""
        asked = {
            **scope_conditions(write.within),
            "now": now,
            "keep": write.keep_created,
            "purge": write.purge,
            "fresh": write.fresh,
            "memo": bool(write.deletes or write.fresh or write.new or write.expected),
        }
        if write.new:
            asked["new"] = dict.fromkeys(write.new, True)
        if write.deletes:
            asked["deletes"] = list(write.deletes)
        if write.within is not None and write.within.extra:
            asked |= await self._check_extra(write, write.within, now)
        if write.expected is not None:
            conversation, incomplete = script_filter(write.expected.conversation, content=False)
            head = write.expected.head
            if incomplete:
                # The script checks that the last item it can identify is still the same when it writes.
                last = await self.run(TAKE, ["", json_text(conversation), "hide", "", ""])
                head = read_stored(last[1], self.item_types).item.id if last[0] == b"found" else None
                newest = await self._search(write.expected.conversation, Page(1, order="added"))
                write.expected.check(newest[0].id if newest else None)
            asked |= {"expected": conversation, "head": head or ""}
        return asked

    async def _check_extra(self, write: Write, within: MemoryMetadata, now: str) -> dict[str, dict[str, Any]]:
        """Refuse ids outside ``within.extra``, which only Python can compare; return the state seen of each id."""
        before: dict[str, MemoryMetadata] = {}
        seen: dict[str, str] = {}
        outside: dict[str, bool] = {}
        for item in write.adds:
            if item.id not in before:
                row, seen[item.id], hidden = await self._seen(item.id, now)
                # A comparison of versions ignores hidden items.
                mine = row is None or (hidden and write.compared and item.version)
                before[item.id] = within if mine or row is None else row.item.metadata
            if not metadata_matches(within, before[item.id]):
                raise IdConflictError(item.id)
            before[item.id] = item.metadata
        for item_id in write.deletes:
            row, seen[item_id], _ = await self._seen(item_id, now)
            if row is None or not metadata_matches(within, row.item.metadata):
                outside[item_id] = True
        return {"seen": seen, "outside": outside}

    async def _touch(self, change: Change) -> int:
        touched = 0
        ttl, now, within = change.ttl, change.now, change.wanted.metadata
        waiting = list(dict.fromkeys(change.ids or ()))
        while waiting:
            arguments: list[Any] = [now]
            for row in await self._rows_of(waiting[:PAGE]):
                life = row.item.ttl if ttl is None else ttl
                if life is not None and metadata_matches(within, row.item.metadata):
                    ends = end_of_life(now, life)
                    lasting = "" if ends is None else json_text(life)
                    arguments += [row.item.id, row.item.version, ends or "", milliseconds(now, ends), lasting]
            waiting = waiting[PAGE:]
            if len(arguments) > 1:
                count, *again = await self.run(TOUCH, arguments)
                touched += count
                waiting += [item_id.decode() for item_id in again]
        return touched


def _stored(items: Sequence[MemoryItem], written: Sequence[bytes]) -> list[MemoryItem]:
    """Return items as they are stored; of each, its version and the trust that it says itself were written."""
    for item, text in zip(items, written, strict=True):
        version, trust = text.decode().split(" ")
        item.__dict__.update(version=int(version), trust=trust or None)
    return list(items)
