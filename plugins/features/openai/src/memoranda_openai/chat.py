"""Answers and summaries of a model behind OpenAI's chat API or any compatible server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from memoranda.errors import InputError, SummarizerUnavailableError, SummaryError
from memoranda_openai.service import Failures, Service

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
