"""The vector store: items in memory with their embeddings, found by meaning, by words, or by both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from memoranda.embeddings import Embeddings
from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.plugins import embedder
from memoranda.shapes import each, truth, whole_number
from memoranda.store import SearchMode, Store
from memoranda.store.writing import add_with_vectors
from memoranda.urls import take_options, yes_or_no
from memoranda_backend.ranking import Weights
from memoranda_vector.batch_columns import ItemVectors
from memoranda_vector.engine import VectorEngine
from memoranda_vector.vectors import checked_vectors


class VectorMemoryStore(Store):
    """A store in memory that finds items by the meaning of their content.

    ``search(query=…)`` is semantic by default: items come in the order of the cosine between their vector and the
    query's. The names of speakers are removed from a query before it is embedded. ``mode="text"`` ranks by words and
    ``"hybrid"`` by both; ``weights`` says how much each thing counts. Without a query the newest items come first.

    - Adding calls the embedder, with all texts of :meth:`add_many` at once. If that fails, nothing is changed.
    - An item that is added again with the same content keeps its vector.
    - An item without text has no vector and is not found by meaning.
    - Deleting or clearing an item removes its vector; restoring it calls the embedder again.
    - Search is exact. With ``ann=True`` (extra ``ann``) an approximate index answers unfiltered searches by meaning
      above ``ann_above`` items.
    """

    capabilities = VectorEngine.capabilities
    default_mode: ClassVar[SearchMode] = "semantic"
    needs_init: ClassVar[bool] = False

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        weights: Weights | None = None,
        ann: bool = False,
        ann_above: int = 50_000,
    ) -> None:
        self.weights = weights
        """What each signal counts in a ranked search; None for the defaults."""
        self._vectors = VectorEngine(
            embeddings, weights or Weights(), truth(ann, "ann"), whole_number(ann_above, "ann_above")
        )
        self._embeddings = embeddings
        super().__init__(self._vectors)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        embeddings: Embeddings | str | None = None,
        weights: Weights | None = None,
        ann: bool | None = None,
        ann_above: int | None = None,
    ) -> VectorMemoryStore:
        """Return a new, empty store for ``vector://``; ``vector://?embeddings=hashing`` names an installed embedder.

        All options but ``weights`` may also be given in the URL's query. Raises InputError for an unknown option, and
        for one whose value in the URL differs from the keyword's.
        """
        given = {"embeddings": embeddings, "weights": weights, "ann": ann, "ann_above": ann_above}
        rest, options = take_options(url, {"embeddings": str, "ann": yes_or_no, "ann_above": int}, given)
        if rest.partition(":")[2].strip("/"):
            raise InputError("The vector store has no name: its URL is 'vector://'.", field="url")
        found = embedder(options.pop("embeddings", None))
        if found is None:
            raise InputError(
                "The vector store needs an embedder: open('vector://', embeddings=…) with an object or a name.",
                field="embeddings",
            )
        return cls(found, **options)

    @property
    def embeddings(self) -> Embeddings:
        """The underlying embedder."""
        return self._embeddings

    def __len__(self) -> int:
        return len(self._vectors)

    def __bool__(self) -> bool:
        return True  # An empty store is still a store.

    def __repr__(self) -> str:
        return f"VectorMemoryStore(items={len(self)}, dimension={self._embeddings.dimension})"

    # Writing

    async def add_vectors(
        self, items: Iterable[MemoryItem], vectors: Any, *, within: MemoryMetadata | None = None
    ) -> None:
        """Store items with vectors that were computed before, as :meth:`add_many` does, without calling the embedder.

        ``vectors`` is a matrix or a list of lists of the embedder's dimension, one row for each item.
        """
        given = each(items, "items", "memory items")
        matrix = await checked_vectors(vectors, len(given), self._embeddings.dimension)
        await add_with_vectors(self, given, ItemVectors(matrix), within=within)
