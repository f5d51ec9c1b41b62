"""Embeddings from OpenAI's API or any compatible server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from memoranda.embeddings import Embeddings
from memoranda.errors import BadVectorError, EmbeddingError, EmbeddingUnavailableError
from memoranda.per_loop import PerLoop
from memoranda.shapes import whole_number
from memoranda_backend.ranking import checked_vector
from memoranda_openai.service import Failures, Service

_FAILURES = Failures(EmbeddingUnavailableError, EmbeddingError)


class OpenAIEmbeddings(Embeddings):
    """An embedder that calls OpenAI's embeddings API, or a compatible one at ``base_url``.

    - Texts are sent in batches of ``batch_size``, with at most ``concurrency`` requests at once in each event loop.
    - Requests that fail with 429 or 5xx, or do not get through, are retried up to ``max_retries`` times, with growing
      pauses or after the time that the server asks for.
    - ``timeout`` is in seconds, for each request.
    - Without ``api_key`` the environment's ``OPENAI_API_KEY`` is used; a server of your own may need none.
    - Empty texts have the zero vector.

    Raises EmbeddingUnavailableError if the API cannot be reached, is overloaded or too slow; BadVectorError for vectors
    of another length; EmbeddingError for everything else, including a wrong key.
    """

    def __init__(
        self,
        *,
        model: str = "text-embedding-3-small",
        dimension: int = 1536,
        api_key: str | None = None,
        base_url: str | None = None,
        batch_size: int = 256,
        concurrency: int = 4,
        timeout: float = 30.0,
        max_retries: int = 4,
    ) -> None:
        self.model = model
        self._dimension = whole_number(dimension, "dimension", least=1)
        self._batch_size = whole_number(batch_size, "batch_size", least=1)
        self._service = Service(
            f"The embeddings API for {model!r}",
            _FAILURES,
            check="model and dimension",
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
        )
        self._semaphores = PerLoop(partial(asyncio.Semaphore, whole_number(concurrency, "concurrency", least=1)))

    def __repr__(self) -> str:
        return f"OpenAIEmbeddings(model={self.model!r}, dimension={self._dimension})"

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    def embed(self, text: str) -> list[float]:
        """Return the vector of one text. Blocks; inside a coroutine use :meth:`aembed`."""
        return self.embed_many([text])[0]

    async def aembed(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return (await self.aembed_many([text]))[0]

    def embed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order, one request after the other."""
        vectors: list[list[float]] = [[0.0] * self._dimension for _ in texts]
        for places in self._batches(texts):
            try:
                client = self._service.blocking_client()
                answer = client.embeddings.create(**self._request([texts[place] for place in places]))
            except Exception as error:  # noqa: BLE001 - whatever the client raises becomes one of our errors
                raise self._service.translated(error)  # noqa: B904 - it carries the cause that can be shown
            self._fill(vectors, places, answer)
        return vectors

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order, with several requests at once."""
        vectors: list[list[float]] = [[0.0] * self._dimension for _ in texts]
        client, semaphore = self._service.client(), self._semaphores.here()

        async def fetch(places: list[int]) -> None:
            async with semaphore:
                try:
                    answer = await client.embeddings.create(**self._request([texts[place] for place in places]))
                except Exception as error:  # noqa: BLE001 - as above
                    raise self._service.translated(error)  # noqa: B904 - as above
            self._fill(vectors, places, answer)

        try:
            async with asyncio.TaskGroup() as group:
                for places in self._batches(texts):
                    group.create_task(fetch(places))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        return vectors

    def close(self) -> None:
        """Close the connections of sync calls."""
        self._service.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and those of :meth:`close`."""
        await self._service.aclose()

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the positions of the texts to send together. The API refuses empty texts."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(places), self._batch_size):
            yield places[start : start + self._batch_size]

    def _request(self, texts: list[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.model.startswith("text-embedding-3"):
            request["dimensions"] = self._dimension  # Other models have a fixed dimension and refuse the parameter.
        return request

    def _fill(self, vectors: list[list[float]], places: list[int], answer: Any) -> None:
        """Check the vectors of an answer and put them into their places."""
        try:
            found = {int(entry.index): entry.embedding for entry in answer.data}
        except (AttributeError, TypeError, ValueError) as error:
            raise self._service.unusable("returned something that is not a list of embeddings.") from error
        if sorted(found) != list(range(len(places))):
            raise self._service.unusable(f"returned {len(found)} embeddings for {len(places)} texts.")
        for index, vector in found.items():
            if vector is None:
                raise BadVectorError("it is missing")
            vectors[places[index]] = checked_vector(vector, self._dimension).tolist()
