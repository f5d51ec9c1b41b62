"""Writing, hiding, restoring, purging and sweeping items: a batch is one script, which does all of it or nothing."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from memoranda.errors import CorruptStoreError, IdConflictError, InputError, VersionConflictError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, now_text
from memoranda.shapes import json_text
from memoranda.store import EVERYTHING, copy_item
from memoranda.store.backend import Change, Filter, Page, Write, Written, end_of_life, metadata_matches
from memoranda_redis._reading import EFFORT, PAGE, Family, Reading
from memoranda_redis._reading_scripts import ScriptFilter, ids_of, scope_conditions, script_filter
from memoranda_redis._records import folded, item_body, item_header, milliseconds, read_stored
from memoranda_redis._writing_scripts import MOVE_ALL, MOVE_SOME, PUT, SWEEP, TAKE, TOUCH

logger = logging.getLogger(__name__)

Action = Literal["hide", "restore", "purge"]

FAMILIES: tuple[Family, ...] = ("live", "hidden")

_MOST_AT_ONCE = 100_000
"""The most items of one atomic write."""


class Writing(Reading):
    """The part of the engine that writes and removes."""

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

    async def _purge(self, ids: Sequence[str] | None, wanted: Filter, deleted_only: bool) -> int:
        purged = await self._move("purge", "hidden", ids, wanted)
        if not deleted_only:
            purged += await self._move("purge", "live", ids, wanted)
        return purged

    async def _pop(self, wanted: Filter, purge: bool) -> Written:
        popped = await self._popped(wanted, purge)
        return Written() if popped is None else Written(1, [popped])

    async def _popped(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        asked, incomplete = script_filter(wanted, content=False)
        action: Action = "purge" if purge else "hide"
        token, candidate, origin = uuid.uuid4().hex, None, b""
        try:
            while not incomplete:
                named = candidate.id if candidate else ""
                answer = await self.run(TAKE, [token, json_text(asked), action, named, origin])
                if answer[0] != b"found":
                    return candidate if answer[0] == b"done" else None
                candidate, origin = read_stored(answer[1], self.item_types).item, answer[2]
        except CorruptStoreError:
            logger.debug("An item that cannot be read is skipped.")
        while newest := await self._search(wanted, Page(1, order="added")):
            if await self._move_some(action, "live", asked, [(newest[0].id, str(newest[0].version))]):
                return newest[0]
        return None

    async def _sweep(self, wanted: Filter) -> int:
        ids = ids_of(wanted)
        asked, incomplete = script_filter(wanted, content=False)
        if ids is not None and asked == {"now": asked.get("now"), "over": True}:
            chosen = [(item_id, "") for item_id in ids]
            return sum([await self._move_some("purge", family, asked, chosen) for family in FAMILIES])
        if incomplete or set(asked) - {*SCOPE_FIELDS, "place", "now", "over"}:
            return await self._purge(None, wanted, False)
        swept = 0
        cursor = b""
        while True:
            count, cursor = await self.run(SWEEP, [json_text(asked), cursor, EFFORT])
            swept += int(count)
            if not cursor:
                return swept

    async def _move(self, action: Action, family: Family, ids: Sequence[str] | None, wanted: Filter) -> int:
        """Hide, restore or purge what matches of a family, all or the items of some ids, and return how many."""
        asked, incomplete = script_filter(wanted, content=False)
        if incomplete:
            return await self._move_partly_matched(action, family, ids, wanted)
        if ids is not None:
            return await self._move_some(action, family, asked, [(item_id, "") for item_id in ids])
        moved = 0
        cursor = b""
        while True:
            count, cursor = await self.run(
                MOVE_ALL, [uuid.uuid4().hex, action, family, json_text(asked), cursor, EFFORT]
            )
            moved += int(count)
            if not cursor:
                return moved

    async def _move_partly_matched(
        self, action: Action, family: Family, ids: Sequence[str] | None, wanted: Filter
    ) -> int:
        """Move items by a filter that only Python can compare; one that changes meanwhile is compared again."""
        asked, _ = script_filter(wanted, content=False)
        moved = 0
        while True:
            if ids is None:
                rows = [row async for row in self._ordered(wanted, family, "created", "oldest", EVERYTHING)]
            else:
                seen = [await self._seen(item_id) for item_id in ids]
                rows = [row for row, _, hidden in seen if row is not None and hidden == (family == "hidden")]
                rows = [row for row in rows if wanted.matches(row.item)]
            chosen = [(row.item.id, str(row.item.version)) for row in rows]
            count = await self._move_some(action, family, asked, chosen)
            moved += count
            if count == len(chosen) or not count:
                return moved

    async def _move_some(
        self, action: Action, family: Family, asked: ScriptFilter, chosen: Sequence[tuple[str, str]]
    ) -> int:
        """Move items, each of the version that is expected of it, or whichever it has."""
        moved = 0
        for first in range(0, len(chosen), PAGE):
            arguments: list[Any] = [uuid.uuid4().hex, action, family, json_text(asked)]
            for pair in chosen[first : first + PAGE]:
                arguments += pair
            moved += (await self.run(MOVE_SOME, arguments))[0]
        return moved


def _stored(items: Sequence[MemoryItem], written: Sequence[bytes]) -> list[MemoryItem]:
    """Return items as they are stored; of each, its version and the trust that it says itself were written."""
    for item, text in zip(items, written, strict=True):
        version, trust = text.decode().split(" ")
        item.__dict__.update(version=int(version), trust=trust or None)
    return list(items)
