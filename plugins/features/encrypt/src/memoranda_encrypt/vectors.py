"""The vectors of items: made here from the content, and sealed like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memoranda.embeddings import Embeddings
from memoranda.items import MemoryItem
from memoranda.offloading import offload
from memoranda_backend.ranking import Weights, embed_passages, embed_query, has_text, pack_vector
from memoranda_encrypt.items import Draft, open_vectors
from memoranda_encrypt.keyring import KeyRing
from memoranda_encrypt.sealing import key_id_of, sealed_text


class VectorSealer:
    """Makes vectors, and packs them with the name of the model that made them."""

    def __init__(self, embeddings: Embeddings, weights: Weights | None) -> None:
        self._embeddings = embeddings
        self.dimension = embeddings.dimension
        self.weights = weights or Weights()
        self._model = f"{embeddings.identity()} ({embeddings.dimension} dimensions)\0".encode()

    async def of(self, drafts: Sequence[Draft], known: Mapping[str, bytes]) -> list[bytes | None]:
        """Return the vectors of drafts, ready to be sealed; None for a content without text."""
        asked = [draft for draft in drafts if has_text(draft.content) and draft.item.id not in known]
        made = dict(
            zip([draft.item.id for draft in asked], await self.embedded([d.content for d in asked]), strict=True)
        )
        found = {**known, **made}
        return [self._model + found[draft.item.id] if draft.item.id in found else None for draft in drafts]

    async def embedded(self, texts: Sequence[str]) -> list[bytes]:
        """Return the packed vectors of texts. Raises EmbeddingError when the embedder fails."""
        if not texts:
            return []
        vectors = await embed_passages(self._embeddings, texts, self.weights.passage)
        return await offload(sum(map(len, vectors)), _all_packed, vectors, self.dimension)

    async def query(self, text: str) -> tuple[Sequence[float], float]:
        """Return the vector of a query, and how similar unrelated texts are to it."""
        return await embed_query(self._embeddings, text)

    def opened(self, stored: MemoryItem, ring: KeyRing) -> bytes | None:
        """Return the packed vectors of a stored item, whose key is at hand; None without one of this model."""
        key = ring.known(key_id_of(sealed_text(stored)))
        packed = None if key is None else open_vectors(stored, key)
        return packed[len(self._model) :] if packed is not None and packed.startswith(self._model) else None


def _all_packed(vectors: Sequence[Sequence[Sequence[float]]], dimension: int) -> list[bytes]:
    return [b"".join([pack_vector(vector, dimension) for vector in passages]) for passages in vectors]
