"""A service that speaks OpenAI's API: the client that embeddings share, and a model that answers and summarises.

No error contains a key or what was sent. A server may repeat both in its refusal, so its answer stays out of
tracebacks.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from memoranda.errors import InputError, MemoryError, SummarizerUnavailableError, SummaryError
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
    """One endpoint of OpenAI's API, or of a compatible server; :class:`OpenAIChat` says what its options mean.

    ``name`` is the endpoint's name in errors, and ``check`` what they advise to check if it refuses a request.
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


_FAILURES = Failures(SummarizerUnavailableError, SummaryError)
# Local servers often return what a reasoning model thought before it answered.
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer, and how many tokens went in and came out; 0 if the server does not say."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class OpenAIChat:
    """A model behind OpenAI's chat API, or a compatible one at ``base_url``.

    - Requests that fail with 429 or 5xx, or do not get through, are retried up to ``max_retries`` times, with growing
      pauses or after the time that the server asks for.
    - ``timeout`` is in seconds, for each request.
    - Without ``api_key`` the environment's ``OPENAI_API_KEY`` is used; a server of your own may need none.
    - ``max_tokens`` and ``temperature`` are sent only if given, since some models refuse them.

    Raises SummarizerUnavailableError if the API cannot be reached, is overloaded or too slow; SummaryError for
    everything else: a wrong key, or an answer that is unreadable, cut off, withheld or empty. No error contains the
    prompt or the key. Use it with ``async with``, or call :meth:`aclose`, to close its connections.
    """

    def __init__(
        self,
        model: str = "gpt-5-mini",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 4,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> None:
        if not isinstance(model, str) or not model:
            raise InputError("model must be the name of a model.", field="model")
        self.model = model
        self._service = Service(
            f"The chat API for {model!r}",
            _FAILURES,
            check="the model's name and how much it can take",
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
        )
        # OpenAI itself wants the newer name; compatible servers mostly know the older one.
        bound = "max_completion_tokens" if base_url is None else "max_tokens"
        given = {bound: max_tokens, "temperature": temperature}
        self._parameters = {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._service.aclose()

    async def answer(
        self, prompt: str, *, system: str | None = None, schema: Mapping[str, Any] | None = None
    ) -> ChatAnswer:
        """Return the answer to a prompt; with a JSON ``schema``, the server is told to answer in JSON that fits it.

        Not every server obeys: check the answer.
        """
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        request: dict[str, Any] = {"model": self.model, "messages": messages, **self._parameters}
        if schema is not None:
            form = {"name": "answer", "strict": True, "schema": dict(schema)}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        try:
            answer = await self._service.client().chat.completions.create(**request)
        except Exception as error:  # noqa: BLE001 - whatever the client raises becomes one of our errors
            raise self._service.translated(error)  # noqa: B904 - it carries the cause that can be shown
        return ChatAnswer(self._text(answer), _tokens(answer, "prompt_tokens"), _tokens(answer, "completion_tokens"))

    def _text(self, answer: Any) -> str:
        """Return the text of a complete answer."""
        try:
            choice = answer.choices[0]
            text, reason = choice.message.content, choice.finish_reason
        except (AttributeError, IndexError, TypeError) as error:
            raise self._service.unusable("returned an answer that is not a chat completion.") from error
        if reason == "length":
            raise self._service.unusable("was cut off before its answer was complete. Raise max_tokens.")
        if reason == "content_filter" or getattr(choice.message, "refusal", None):
            raise self._service.unusable("withheld its answer.")
        text = _THOUGHTS.sub("", text, count=1).strip() if isinstance(text, str) else ""
        if not text:
            raise self._service.unusable("returned an empty answer.")
        return text


def _tokens(answer: Any, name: str) -> int:
    number = getattr(getattr(answer, "usage", None), name, 0)
    return number if isinstance(number, int) else 0


class OpenAISummarizer(OpenAIChat):
    """A summarizer that calls a model behind OpenAI's chat API, or a compatible one at ``base_url``.

    It takes the options, and raises the errors, of :class:`OpenAIChat`.
    """

    async def summarize(self, prompt: str) -> str:
        """Return the model's answer to the prompt."""
        return (await self.answer(prompt)).text
