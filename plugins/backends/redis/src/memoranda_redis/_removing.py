"""Hiding, restoring and purging items, popping the last one, and sweeping expired ones."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from memoranda.errors import CorruptStoreError
from memoranda.items import SCOPE_FIELDS, MemoryItem
from memoranda.shapes import json_text
from memoranda.store import EVERYTHING
from memoranda.store.backend import Filter, Page, Written
from memoranda_redis._filters import ScriptFilter, ids_of, script_filter
from memoranda_redis._reading import EFFORT, PAGE, Family, Reading
from memoranda_redis._records import read_stored
from memoranda_redis._removing_scripts import MOVE_ALL, MOVE_SOME, SWEEP, TAKE

logger = logging.getLogger(__name__)

Action = Literal["hide", "restore", "purge"]

FAMILIES: tuple[Family, ...] = ("live", "hidden")


class Removing(Reading):
    """The removing part of the engine."""

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
