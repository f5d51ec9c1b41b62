"""The page of ``memoranda doctor``: findings as they come, since a large store takes a while to read."""

from __future__ import annotations

import asyncio
import time

from starlette.requests import Request
from starlette.responses import Response

from memoranda.errors import MemoryError
from memoranda.store import Finding, Store
from memoranda_commands.findings import item_findings, own_findings, plugin_findings
from memoranda_inspector.pages import Pages, in_page

WAIT = 1.0  # How many seconds a page waits for the end of a check before it shows what was found so far.


class HealthCheck:
    """One check of a store: what was found so far, and what is being done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._started = time.monotonic()
        self.findings = plugin_findings()
        self.doing = "Reading every item"
        """What is being done; empty at the end."""
        self.read = 0
        self.total = 0

    @property
    def seconds(self) -> int:
        """How long it has taken so far."""
        return int(time.monotonic() - self._started)

    async def run(self) -> None:
        """Check everything. An error is a finding; of an unexpected one only the type is shown."""
        try:
            self.total = await self._store.count()
            self.findings += await item_findings(self._store, self._advance)
            self.doing = "The store is checking itself"
            self.findings += await own_findings(self._store)
        except Exception as error:  # noqa: BLE001  # its message may quote what is stored
            said = str(error) if isinstance(error, MemoryError) else f"It failed with {type(error).__name__}."
            self.findings.append(Finding("check", False, said, "Run it again."))
        self.doing = ""

    def _advance(self, read: int) -> None:
        self.read += read


class HealthPages(Pages):
    """Starts a check with each visit, unless one is running, and shows its progress."""

    _check: HealthCheck | None = None
    _running: asyncio.Task[None] | None = None

    async def health(self, request: Request) -> Response:
        """Show what is found so far. A page that asks again does not start a new check."""
        if self._check is None or self._running is None or (self._running.done() and not in_page(request)):
            self._check = HealthCheck(self._store)
            self._running = asyncio.create_task(self._check.run())
        await asyncio.wait({self._running}, timeout=WAIT)
        template = "_health.html" if in_page(request) else "health.html"
        return self._page(template, check=self._check)
