"""The model that summaries are asked of: any OpenAI-compatible service, or a command of yours."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from recollect.errors import InputError, SummaryError
from recollect.urls import redacted

KEY_VARIABLE = "OPENAI_API_KEY"
BASE_VARIABLE = "OPENAI_BASE_URL"
MODEL_VARIABLE = "RECOLLECT_MODEL"
DEFAULT_BASE = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A summarizer over the chat completions of an OpenAI-compatible service."""

    base_url: str
    model: str
    key: str = field(repr=False)
    timeout: float = 300.0

    async def summarize(self, prompt: str) -> str:
        """Return the model's answer. Raises SummaryError, saying what the service said."""
        return await asyncio.to_thread(self._ask, prompt)

    def _ask(self, prompt: str) -> str:
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}]}
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        address = f"{self.base_url.rstrip('/')}/chat/completions"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                answer: Any = json.load(response)
            return str(answer["choices"][0]["message"]["content"] or "")
        except urllib.error.HTTPError as error:
            said = " ".join(error.read(500).decode(errors="replace").split())
            raise SummaryError(f"{redacted(address)} answered {error.code}: {said or error.reason}") from error
        except OSError as error:
            raise SummaryError(
                f"{redacted(address)} cannot be reached ({error}). Check --base-url, or {BASE_VARIABLE}."
            ) from error
        except (ValueError, LookupError, TypeError) as error:
            raise SummaryError(f"{redacted(address)} gave an answer that is no chat completion.") from error


@dataclass(frozen=True, slots=True)
class CommandModel:
    """A summarizer that is a command: it reads the prompt from standard input and writes its answer."""

    command: str

    async def summarize(self, prompt: str) -> str:
        """Return what the command wrote. Raises SummaryError when it cannot be started or fails."""
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(self.command), stdin=pipe, stdout=pipe, stderr=pipe
            )
        except (OSError, ValueError) as error:
            raise SummaryError(f"The command {self.command!r} cannot be started: {error}.") from error
        try:
            written, complaint = await process.communicate(prompt.encode())
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            said = " ".join(complaint.decode(errors="replace").split())[:300]
            raise SummaryError(f"The command {self.command!r} failed with exit code {process.returncode}: {said}")
        return written.decode(errors="replace")


def chosen_model(base_url: str | None, model: str | None, command: str | None) -> ChatModel | CommandModel:
    """Return the model that the options name. Raises InputError, saying what is missing."""
    if command:
        return CommandModel(command)
    model = model or os.environ.get(MODEL_VARIABLE)
    if not model:
        raise InputError(
            f"Name the model to ask: --model NAME (or {MODEL_VARIABLE}), with --base-url for a service of your own, or "
            f"--command.",
            field="model",
        )
    base = base_url or os.environ.get(BASE_VARIABLE) or DEFAULT_BASE
    if not base.startswith(("http://", "https://")):
        raise InputError(f"--base-url starts with https:// or http://, not {redacted(base)!r}.", field="base_url")
    key = os.environ.get(KEY_VARIABLE, "")
    if not key and base == DEFAULT_BASE:
        raise InputError(f"{DEFAULT_BASE} needs a key in {KEY_VARIABLE}.", field="key")
    return ChatModel(base, model, key)
