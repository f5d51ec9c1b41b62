"""Hiding, restoring and purging items, popping the last one, and sweeping expired ones."""

from __future__ import annotations

import logging
import uuid
from typing import Any, Literal

from memoranda.errors import CorruptStoreError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.shapes import json_text
from memoranda.store import EVERYTHING
from memoranda.store.backend import Filter, Page
from memoranda_redis._filters import ScriptFilter, ids_of, script_filter
from memoranda_redis._reading import EFFORT, PAGE, Family, Reading
from memoranda_redis._records import read_stored
from memoranda_redis._removing_scripts import MOVE_ALL, MOVE_SOME, SOONEST, SWEEP, TAKE

logger = logging.getLogger(__name__)

Action = Literal["hide", "restore", "purge"]

FAMILIES: tuple[Family, ...] = ("live", "hidden")


class Removing(Reading):
    """The removing part of the store."""

    async def _clear(self, wanted: Filter) -> int:
        return await self._move("hide", "live", None, wanted)

    async def _delete(self, item_id: str, within: MemoryMetadata | None) -> bool:
        wanted = Filter(metadata=within, archived=None).also(*self._alive())
        return await self._move("hide", "live", item_id, wanted) > 0

    async def _restore(self, item_id: str | None, wanted: Filter) -> int:
        return await self._move("restore", "hidden", item_id, wanted)

    async def _purge(self, item_id: str | None, wanted: Filter, deleted_only: bool) -> int:
        purged = await self._move("purge", "hidden", item_id, wanted)
        if not deleted_only:
            purged += await self._move("purge", "live", item_id, wanted)
        return purged

    async def _pop(self, wanted: Filter, purge: bool) -> MemoryItem | None:
        asked, incomplete = script_filter(wanted, content=False)
        action: Action = "purge" if purge else "hide"
        token, candidate, origin = uuid.uuid4().hex, None, b""
        try:
            while not incomplete:
                named = candidate.id if candidate else ""
                answer = await self._run(TAKE, [token, json_text(asked), action, named, origin])
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
            count, cursor = await self._run(SWEEP, [json_text(asked), cursor, EFFORT])
            swept += int(count)
            if not cursor:
                return swept

    async def _soonest_expiry(self) -> str | None:
        soonest = await self._run_opening(SOONEST, [])
        return soonest.decode(errors="replace") or None

    async def _move(self, action: Action, family: Family, item_id: str | None, wanted: Filter) -> int:
        """Hide, restore or purge one item, or all of a family that match, and return how many."""
        asked, incomplete = script_filter(wanted, content=False)
        if incomplete:
            return await self._move_partly_matched(action, family, item_id, wanted)
        if item_id is not None:
            return await self._move_some(action, family, asked, [(item_id, "")])
        moved = 0
        cursor = b""
        while True:
            count, cursor = await self._run(
                MOVE_ALL, [uuid.uuid4().hex, action, family, json_text(asked), cursor, EFFORT]
            )
            moved += int(count)
            if not cursor:
                return moved

    async def _move_partly_matched(self, action: Action, family: Family, item_id: str | None, wanted: Filter) -> int:
        """Move items by a filter that only Python can compare; one that changes meanwhile is compared again."""
        asked, _ = script_filter(wanted, content=False)
        moved = 0
        while True:
            if item_id is not None:
                row, _, hidden = await self._seen(item_id)
                matches = row is not None and hidden == (family == "hidden") and wanted.matches(row.item)
                rows = [row] if row is not None and matches else []
            else:
                rows = [row async for row in self._ordered(wanted, family, "created", "oldest", EVERYTHING)]
            chosen = [(row.item.id, str(row.item.version)) for row in rows]
            count = sum(
                [
                    await self._move_some(action, family, asked, chosen[first : first + PAGE])
                    for first in range(0, len(chosen), PAGE)
                ]
            )
            moved += count
            if count == len(chosen) or not count:
                return moved

    async def _move_some(
        self, action: Action, family: Family, asked: ScriptFilter, chosen: list[tuple[str, str]]
    ) -> int:
        arguments: list[Any] = [uuid.uuid4().hex, action, family, json_text(asked)]
        for pair in chosen:
            arguments += pair
        count: int = (await self._run(MOVE_SOME, arguments))[0]
        return count
