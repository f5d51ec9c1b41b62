"""The contract of an embedder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from memoranda.loops import TEXTS_EMBEDDED_PER_TURN, in_slices


class Embeddings(ABC):
    """Turns text into vectors whose directions tell how alike the texts are.

    A subclass gives :meth:`embed`, :meth:`aembed` and :attr:`dimension`, and overrides :meth:`embed_many` and
    :meth:`aembed_many` where its provider takes several texts at once, and :meth:`embed_query` and :meth:`aembed_query`
    where its model wants a question otherwise than what may answer it. Vectors need not be normalised. A store never
    asks for the vector of a text that is nothing but whitespace, nor again for that of a content which it holds.

    The first search by meaning asks an embedder that takes several texts at once for a few more beside the query, once:
    they tell how similar texts are that have nothing to do with each other, which is where its scores begin.
    """

    @abstractmethod
    def embed(self, text: str) -> list[float]:
        """Return the vector of one text."""

    @abstractmethod
    async def aembed(self, text: str) -> list[float]:
        """Return the vector of one text without blocking the event loop."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length of every vector."""

    def embed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order; by default one after the other."""
        return [self.embed(text) for text in texts]

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order; by default one after the other."""
        vectors: list[list[float]] = []
        async for some in in_slices(texts, TEXTS_EMBEDDED_PER_TURN):
            vectors += [await self.aembed(text) for text in some]
        return vectors

    def embed_query(self, query: str) -> list[float]:
        """Return the vector by which texts that answer a query are found; by default that of the same text."""
        return self.embed(query)

    async def aembed_query(self, query: str) -> list[float]:
        """Return the same without blocking the event loop."""
        return await self.aembed(query)

    def identity(self) -> str:
        """Return the name under which a store keeps vectors: those of another name must not be compared with them.

        By default the attribute ``model``, or the name of the class.
        """
        model = getattr(self, "model", None)
        return model if isinstance(model, str) and model else type(self).__name__
