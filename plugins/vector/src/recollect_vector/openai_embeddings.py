"""Embeddings from OpenAI's API, or from any server that speaks it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from recollect.embeddings import Embeddings
from recollect.errors import BadVectorError, EmbeddingError, EmbeddingUnavailableError, InputError
from recollect.vectors import checked_vector

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

KEY_VARIABLE = "OPENAI_API_KEY"


class OpenAIEmbeddings(Embeddings):
    """An embedder that calls OpenAI's embeddings API, or one that follows its format at ``base_url``.

    Several texts are sent together, ``batch_size`` in one request and at most ``concurrency`` requests at once from
    each event loop. Requests that are refused with 429 or 5xx, or do not get through, are repeated up to
    ``max_retries`` times, with growing pauses or after the time that the server names. ``timeout`` is in seconds, for
    each request. Without ``api_key``, the environment's ``OPENAI_API_KEY`` is used; a server of your own may need none.
    Empty texts have the zero vector.

    Raises EmbeddingUnavailableError when the API cannot be reached, is overloaded or too slow; BadVectorError for
    vectors of another length; EmbeddingError for everything else, a wrong key included.
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
        for name, value, least in (
            ("dimension", dimension, 1),
            ("batch_size", batch_size, 1),
            ("concurrency", concurrency, 1),
            ("max_retries", max_retries, 0),
        ):
            if not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}.", field=name)
        self.model = model
        self._dimension = dimension
        self._api_key = api_key
        self._base_url = base_url
        self._batch_size = batch_size
        self._concurrency = concurrency
        self._timeout = timeout
        self._max_retries = max_retries
        self._client: OpenAI | None = None
        # Connections and semaphores belong to one event loop, and a program may run several after each other.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[AsyncOpenAI, asyncio.Semaphore]] = (
            WeakKeyDictionary()
        )

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
                answer = self._sync_client().embeddings.create(**self._request([texts[place] for place in places]))
            except Exception as error:  # noqa: BLE001 - whatever the client raises becomes one of our errors
                raise self._translated(error) from _shown(error)
            self._fill(vectors, places, answer)
        return vectors

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of several texts, in their order, with several requests at once."""
        vectors: list[list[float]] = [[0.0] * self._dimension for _ in texts]
        client, gate = self._async_client()

        async def fetch(places: list[int]) -> None:
            async with gate:
                try:
                    answer = await client.embeddings.create(**self._request([texts[place] for place in places]))
                except Exception as error:  # noqa: BLE001 - as above
                    raise self._translated(error) from _shown(error)
            self._fill(vectors, places, answer)

        try:
            async with asyncio.TaskGroup() as group:
                for places in self._batches(texts):
                    group.create_task(fetch(places))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        return vectors

    def close(self) -> None:
        """Close the connections of the calls without async."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and those of :meth:`close`."""
        self.close()
        found = self._clients.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[0].close()

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the places of the texts to send together. The API refuses empty texts."""
        places = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(places), self._batch_size):
            yield places[start : start + self._batch_size]

    def _request(self, texts: list[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.model.startswith("text-embedding-3"):
            request["dimensions"] = self._dimension  # Other models have one dimension and refuse to be asked.
        return request

    def _fill(self, vectors: list[list[float]], places: list[int], answer: Any) -> None:
        """Put the vectors of an answer into their places, checked."""
        try:
            found = {int(entry.index): entry.embedding for entry in answer.data}
        except (AttributeError, TypeError, ValueError) as error:
            raise EmbeddingError(f"{self._name} answered with something that is no list of embeddings.") from error
        if sorted(found) != list(range(len(places))):
            raise EmbeddingError(f"{self._name} answered with {len(found)} embeddings for {len(places)} texts.")
        for index, vector in found.items():
            if vector is None:
                raise BadVectorError("it is missing")
            vectors[places[index]] = checked_vector(vector, self._dimension).tolist()

    def _options(self) -> dict[str, Any]:
        key = self._api_key or os.environ.get(KEY_VARIABLE)
        if not key and self._base_url is None:
            raise EmbeddingError(f"OpenAIEmbeddings needs an API key: give api_key, or set {KEY_VARIABLE}.")
        return {
            "api_key": key or "none",  # The client insists on one, also for a server that asks for none.
            "base_url": self._base_url,
            "timeout": self._timeout,
            "max_retries": self._max_retries,
        }

    def _sync_client(self) -> OpenAI:
        if self._client is None:
            self._client = _openai().OpenAI(**self._options())
        return self._client

    def _async_client(self) -> tuple[AsyncOpenAI, asyncio.Semaphore]:
        loop = asyncio.get_running_loop()
        found = self._clients.get(loop)
        if found is None:
            client = _openai().AsyncOpenAI(**self._options())
            found = self._clients[loop] = (client, asyncio.Semaphore(self._concurrency))
        return found

    @property
    def _name(self) -> str:
        return f"The embeddings API for {self.model!r}"

    def _translated(self, error: Exception) -> Exception:
        """Return the error to raise; neither the texts nor the key are in its sentence."""
        openai = _openai()
        if isinstance(error, EmbeddingError):
            return error
        if isinstance(error, openai.APITimeoutError):
            return EmbeddingUnavailableError(f"{self._name} did not answer within {self._timeout:g} seconds.")
        if isinstance(error, openai.APIConnectionError):
            return EmbeddingUnavailableError(f"{self._name} cannot be reached. Check base_url and the network.")
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return EmbeddingError(f"{self._name} refused the API key ({status}). Check api_key or {KEY_VARIABLE}.")
        if status is not None and (status == 429 or status >= 500):
            return EmbeddingUnavailableError(f"{self._name} is overloaded or out of order ({status}). Try again later.")
        if status is not None and status >= 400:
            return EmbeddingError(f"{self._name} refused the request ({status}). Check model and dimension.")
        return EmbeddingError(f"{self._name} gave an answer that cannot be read ({type(error).__name__}).")


def _shown(error: Exception) -> Exception | None:
    """Return the cause to show. A server may repeat the key that it refuses, so that answer stays out of tracebacks."""
    return None if getattr(error, "status_code", None) in (401, 403) else error


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise EmbeddingError("OpenAIEmbeddings needs the package openai. Install recollect-vector[openai].") from error
    return openai
