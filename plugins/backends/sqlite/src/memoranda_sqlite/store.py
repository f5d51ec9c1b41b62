"""The SQLite store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from memoranda.plugins import embedder
from memoranda.shapes import seconds
from memoranda.store import Finding, Progress, Store
from memoranda.urls import take_options
from memoranda_sqlite import erasing
from memoranda_sqlite.engine import SQLiteEngine
from memoranda_sqlite.files import MEMORY, Database, Durability, checked_durability, checked_path, path_of

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda_backend.ranking import Weights


class SQLiteMemoryStore(Store):
    """Memories in one SQLite file, which several processes may use at once; ``sqlite:///agent.db``.

    - ``db_path`` is the file, or ``":memory:"``. A new file is readable by its owner only.
    - ``durability="full"``: an acknowledged add survives a killed process and a power cut. ``"normal"`` does not wait
      for the disk at each commit: a power cut may lose the last few commits. A killed process loses none, and the file
      stays intact.
    - ``busy_timeout`` is how many seconds a call waits for other processes before it raises StoreUnavailableError.
    - ``embeddings`` (:class:`memoranda.embeddings.Embeddings`) turns on semantic and hybrid search; the file stores the
      vectors.
    - ``weights`` (:class:`memoranda_backend.ranking.Weights`) sets how much each signal counts in a ranked search.

    Calls may come from any event loop of the process that opened the store; after a fork the child must open its own.
    """

    capabilities = SQLiteEngine.capabilities

    def __init__(
        self,
        db_path: str | os.PathLike[str] = MEMORY,
        *,
        durability: Durability = "full",
        busy_timeout: float = 30.0,
        embeddings: Embeddings | None = None,
        weights: Weights | None = None,
    ) -> None:
        # SQLite counts milliseconds in 31 bits.
        wait = seconds(busy_timeout, "busy_timeout", zero=True, most=1e6)
        database = Database(checked_path(db_path), checked_durability(durability), wait)
        self.weights = weights
        """What each signal counts in a ranked search; None for the defaults."""
        self._file = SQLiteEngine(database, embeddings, weights)
        super().__init__(self._file)
        self.capabilities = self._file.capabilities

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file.database.path!r})"

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedder, if there is one."""
        return self._file.embeddings

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        durability: Durability | None = None,
        busy_timeout: float | None = None,
        embeddings: Embeddings | str | None = None,
        weights: Weights | None = None,
    ) -> SQLiteMemoryStore:
        """Return the store of a URL: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` in memory.

        The URL's query may hold options: ``?durability=normal&busy_timeout=5&embeddings=hashing``. Raises InputError
        for an unknown option, and for one whose value differs from that of the keyword.
        """
        given = {"durability": durability, "busy_timeout": busy_timeout, "embeddings": embeddings, "weights": weights}
        rest, options = take_options(url, {"durability": str, "busy_timeout": float, "embeddings": str}, given)
        options["embeddings"] = embedder(options.get("embeddings"))
        return cls(path_of(rest), **options)

    def gauges(self) -> dict[str, int]:
        """Return how many writes wait for the writer, and about how many rows for the text indexes; in any thread."""
        return self._file.gauges()

    # Maintenance

    async def unerased(self) -> str:
        """Return why purged content is not erased from the disk yet, after one more attempt; empty if it is.

        A program that reads an older state of the file needs the log that holds it. The store tries again while it is
        open, and so does the next one that opens the file. In a file larger than 32 MiB, or with tables of other
        programs, copies may be in the free space of pages until :meth:`erase` is called.
        """
        return (await self._file.connections.eraser.attempt()).reason

    async def erase(self, *, others: bool = False) -> str:
        """Rewrite the file if anything was purged from it, and return what is still in the way as ``unerased`` does.

        Writers wait meanwhile, and the disk needs space for two more copies of the file. Once is enough for any number
        of purges. A file with tables of other programs is only rewritten with ``others``: SQLite may renumber the rows
        of tables without an integer primary key.
        """
        connections = self._file.connections
        demand = erasing.Demand.ANY if others else erasing.Demand.OURS
        with self._file.calls.call():
            return (await connections.eraser.attempt(erasing.MOST_WAITED_MILLISECONDS, demand)).reason

    async def reindex(self, progress: Progress | None = None) -> int:
        """Rebuild the text indexes and all vectors and return the number of items.

        Searches by substring and text work meanwhile; those by meaning find items that have their new vector already.
        ``progress`` is called with the number of items done and of all. If the embedder fails, finished vectors stay,
        and another call makes the rest.
        """
        from memoranda_sqlite.health import rebuild

        return await rebuild(self._file.connections, self._file.vectors, progress)

    async def doctor(self, repair: bool = False) -> list[Finding]:
        """Examine the file: damage, unreadable rows, and incomplete indexes.

        With ``repair``, indexes are completed, or rebuilt if they differ from the table, and the file is rewritten if
        it may hold copies of purged content. Stored items do not change.
        """
        from memoranda_sqlite.health import examine, repair_text_index

        connections = self._file.connections
        if repair:
            await repair_text_index(connections)
            await self._file.embed_missing()
            await self.erase()
        return await examine(connections, self._file.vectors, self._file.item_types)

    async def fill_indexes(self) -> None:
        """Index all rows now. Searches are correct without it; the next ones are faster."""
        await self._file.connections.indexer.finish()
