"""The client that embeddings and summaries share: its key, connections, retries and errors.

No error contains a key or what was sent. A server may repeat both in its refusal, so its answer stays out of
tracebacks.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from memoranda.errors import MemoryError
from memoranda.shapes import seconds, whole_number

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"


@dataclass(frozen=True, slots=True)
class Failures:
    """The errors to raise if the service is unavailable, and if it refuses a request or gives an unusable answer."""

    unavailable: type[MemoryError]
    refused: type[MemoryError]


class Service:
    """One endpoint of OpenAI's API, or of a compatible server at ``base_url``.

    - Requests that fail with 429 or 5xx, or do not get through, are retried up to ``max_retries`` times, with growing
      pauses or after the time that the server asks for.
    - ``timeout`` is in seconds, for each request.
    - Without ``api_key`` the environment's ``OPENAI_API_KEY`` is used; a server of your own may need none.
    - ``name`` is the endpoint's name in errors, and ``check`` what they advise to check if it refuses a request.
    """

    def __init__(
        self,
        name: str,
        failures: Failures,
        *,
        check: str,
        api_key: str | None,
        base_url: str | None,
        timeout: float,
        max_retries: int,
    ) -> None:
        self.name = name
        self._failures = failures
        self._check = check
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = seconds(timeout, "timeout")
        self._max_retries = whole_number(max_retries, "max_retries")
        self._blocking: OpenAI | None = None
        # Connections belong to one event loop, and a program may run several in turn.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    def blocking_client(self) -> OpenAI:
        """Return the client for sync calls, created on first use."""
        if self._blocking is None:
            from openai import OpenAI  # Loaded on use: it takes longer than all of memoranda.

            self._blocking = OpenAI(**self._options())
        return self._blocking

    def client(self) -> AsyncOpenAI:
        """Return the client of the running event loop, created on first use."""
        loop = asyncio.get_running_loop()
        found = self._clients.get(loop)
        if found is None:
            from openai import AsyncOpenAI  # As above.

            found = self._clients[loop] = AsyncOpenAI(**self._options())
        return found

    def close(self) -> None:
        """Close the connections of sync calls."""
        if self._blocking is not None:
            self._blocking.close()
            self._blocking = None

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and those of :meth:`close`."""
        self.close()
        found = self._clients.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.close()

    def unusable(self, what: str) -> MemoryError:
        """Return the error for an unusable answer; ``what`` continues the sentence after the endpoint's name."""
        return self._failures.refused(f"{self.name} {what}")

    def translated(self, error: Exception) -> MemoryError:
        """Return the error to raise for an exception of the client, with a cause that is safe to show."""
        made = self._translation(error)
        made.__cause__ = None if getattr(error, "status_code", None) is not None else error
        return made

    def _translation(self, error: Exception) -> MemoryError:
        from openai import APIConnectionError, APITimeoutError

        if isinstance(error, MemoryError):
            return error
        away, refused = self._failures.unavailable, self._failures.refused
        if isinstance(error, APITimeoutError):
            return away(f"{self.name} did not answer within {self._timeout:g} seconds.")
        if isinstance(error, APIConnectionError):
            return away(f"{self.name} cannot be reached. Check base_url and the network.")
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return refused(f"{self.name} refused the API key ({status}). Check api_key or {KEY_VARIABLE}.")
        if status is not None and (status == 429 or status >= 500):
            return away(f"{self.name} is overloaded or broken ({status}). Try again later.")
        if status is not None and status >= 400:
            return refused(f"{self.name} refused the request ({status}). Check {self._check}.")
        return refused(f"{self.name} returned an unreadable answer ({type(error).__name__}).")

    def _options(self) -> dict[str, Any]:
        key = self._api_key or os.environ.get(KEY_VARIABLE)
        if not key and self._base_url is None and not os.environ.get(URL_VARIABLE):
            raise self._failures.refused(f"{self.name} needs an API key: give api_key, or set {KEY_VARIABLE}.")
        return {
            "api_key": key or "none",  # The client insists on a key, even for a server that needs none.
            "base_url": self._base_url,
            "timeout": self._timeout,
            "max_retries": self._max_retries,
        }
