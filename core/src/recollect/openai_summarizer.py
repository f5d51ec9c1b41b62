"""Summaries from OpenAI's chat API, or from any server that speaks it; needs the extra ``openai``."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from recollect.errors import InputError, SummarizerUnavailableError, SummaryError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"

# Local servers often hand out what a reasoning model thought before it answered.
_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


class OpenAISummarizer:
    """A summarizer that asks a model behind OpenAI's chat API, or one that follows its format at ``base_url``.

    Requests that are refused with 429 or 5xx, or do not get through, are repeated up to ``max_retries`` times, with
    growing pauses or after the time that the server names. ``timeout`` is in seconds, for each request. Without
    ``api_key``, the environment's ``OPENAI_API_KEY`` is used; a server of your own may need none. ``max_tokens`` and
    ``temperature`` are sent only where they are given, since some models refuse them.

    Raises SummarizerUnavailableError when the API cannot be reached, is overloaded or too slow; SummaryError for
    everything else: a wrong key, an answer that cannot be read, was cut off or withheld, or says nothing. Neither the
    prompt nor the key is in any error. Use it with ``async with``, or call :meth:`aclose`, to close its connections.
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
        if not isinstance(max_retries, int) or isinstance(max_retries, bool) or max_retries < 0:
            raise InputError(
                f"max_retries must be a whole number of at least 0, not {max_retries!r}.", field="max_retries"
            )
        if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not 0 < timeout < float("inf"):
            raise InputError(f"timeout must be a number of seconds above 0, not {timeout!r}.", field="timeout")
        self.model = model
        self._api_key = api_key
        self._base_url = base_url
        self._timeout = timeout
        self._max_retries = max_retries
        # OpenAI itself wants the newer name; servers that follow its format mostly know the older one.
        bound = "max_completion_tokens" if base_url is None else "max_tokens"
        given = {bound: max_tokens, "temperature": temperature}
        self._parameters = {name: value for name, value in given.items() if value is not None}
        # Connections belong to one event loop, and a program may run several after each other.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"OpenAISummarizer({self.model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def summarize(self, prompt: str) -> str:
        """Return the model's answer to the prompt."""
        client, asked = self._client(), {"role": "user", "content": prompt}
        request: dict[str, Any] = {"model": self.model, "messages": [asked], **self._parameters}
        try:
            answer = await client.chat.completions.create(**request)
        except Exception as error:  # noqa: BLE001 - whatever the client raises becomes one of our errors
            raise self._translated(error) from _shown(error)
        return self._text(answer)

    def _client(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = _openai().AsyncOpenAI(**self._options())
        return client

    def _options(self) -> dict[str, Any]:
        key = self._api_key or os.environ.get(KEY_VARIABLE)
        if not key and self._base_url is None and not os.environ.get(URL_VARIABLE):
            raise SummaryError(f"OpenAISummarizer needs an API key: give api_key, or set {KEY_VARIABLE}.")
        return {
            "api_key": key or "none",  # The client insists on one, also for a server that asks for none.
            "base_url": self._base_url,
            "timeout": self._timeout,
            "max_retries": self._max_retries,
        }

    def _text(self, answer: Any) -> str:
        """Return the text of an answer that is whole."""
        try:
            choice = answer.choices[0]
            text, reason = choice.message.content, choice.finish_reason
        except (AttributeError, IndexError, TypeError) as error:
            raise SummaryError(f"{self._name} gave an answer that is no chat completion.") from error
        if reason == "length":
            raise SummaryError(f"{self._name} was cut off before its answer was complete. Raise max_tokens.")
        if reason == "content_filter" or getattr(choice.message, "refusal", None):
            raise SummaryError(f"{self._name} withheld its answer.")
        text = _THOUGHTS.sub("", text, count=1).strip() if isinstance(text, str) else ""
        if not text:
            raise SummaryError(f"{self._name} gave an empty answer.")
        return text

    @property
    def _name(self) -> str:
        return f"The chat API for {self.model!r}"

    def _translated(self, error: Exception) -> SummaryError:
        """Return the error to raise; neither the prompt nor the key is in its sentence."""
        openai = _openai()
        if isinstance(error, openai.APITimeoutError):
            return SummarizerUnavailableError(f"{self._name} did not answer within {self._timeout:g} seconds.")
        if isinstance(error, openai.APIConnectionError):
            return SummarizerUnavailableError(f"{self._name} cannot be reached. Check base_url and the network.")
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return SummaryError(f"{self._name} refused the API key ({status}). Check api_key or {KEY_VARIABLE}.")
        if status is not None and (status == 429 or status >= 500):
            return SummarizerUnavailableError(
                f"{self._name} is overloaded or out of order ({status}). Try again later."
            )
        if status is not None and status >= 400:
            return SummaryError(
                f"{self._name} refused the request ({status}). Check the model's name and how much it can take."
            )
        return SummaryError(f"{self._name} gave an answer that cannot be read ({type(error).__name__}).")


def _shown(error: Exception) -> Exception | None:
    """Return the cause to show. A server may repeat the key or the prompt that it refuses, so such answers stay out."""
    return None if getattr(error, "status_code", None) is not None else error


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise SummaryError("OpenAISummarizer needs the package openai. Install recollect[openai].") from error
    return openai
