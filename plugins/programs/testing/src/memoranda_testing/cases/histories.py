"""The base of cases that are played on the store and on the model."""

from __future__ import annotations

from memoranda.items import MemoryMetadata
from memoranda.store import Store
from memoranda_testing.case import Cases, Reopen
from memoranda_testing.model import HistoryOptions, Sandbox, check_histories


class HistoryCases(Cases):
    """The base of cases that play histories on the store and on the model, and compare every answer."""

    def _sandbox(self, store: Store, reopen: Reopen | None = None, *, instances: int = 1) -> Sandbox:
        """Return where this case plays its histories."""
        sandbox = Sandbox(
            store, self.exclusive, self.fresh, reopen, self.patience, instances, going_on=lambda: self.going_on()
        )
        if sandbox.mark:
            self.owned(MemoryMetadata(namespace=(sandbox.mark,)))
        return sandbox

    def _often(self, times: int) -> int:
        """Return how often a random case is played that is played so many times by default."""
        return max(1, times // 5) if self.is_brief else times

    async def _play_histories(
        self, sandbox: Sandbox, options: HistoryOptions, topic: str, *, histories: int, length: int
    ) -> None:
        """Play histories of random calls."""
        try:
            await check_histories(sandbox, options, seed=self.seed, histories=histories, length=length, topic=topic)
        finally:
            for mark in sandbox.marks:
                self.owned(MemoryMetadata(namespace=(mark,)))

    def _history_options(self, store: Store, **further: bool | int | tuple[str, ...]) -> HistoryOptions:
        """Return the options for histories on this store."""
        return HistoryOptions(substring_is_default=store.default_mode == "substring", **further)  # type: ignore[arg-type]
