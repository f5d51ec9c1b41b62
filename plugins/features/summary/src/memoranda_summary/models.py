"""The models that write summaries for programs: any OpenAI-compatible service, or a command of yours."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memoranda.errors import InputError, SummaryError
from memoranda.urls import redacted
from memoranda_summary.generation import installed_summarizer

if TYPE_CHECKING:
    from memoranda_summary.generation import Summarizer

MODEL_VARIABLE = "MEMORANDA_MODEL"
"""The environment variable that names the model where no option does."""


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
            reason = " ".join(complaint.decode(errors="replace").split())[:300] or "no reason given"
            raise SummaryError(f"The command {self.command!r} failed with exit code {process.returncode}: {reason}.")
        return written.decode(errors="replace")


@asynccontextmanager
async def openai_model(model: str, base_url: str | None) -> AsyncIterator[Summarizer]:
    """Give a model of OpenAI, or of the compatible service at a URL, for the block; it is closed afterwards."""
    summarizer = installed_summarizer("openai", model=model, base_url=base_url)
    try:
        yield summarizer
    finally:
        close = getattr(summarizer, "aclose", None)
        if close is not None:
            await close()


@asynccontextmanager
async def chosen_model(base_url: str | None, model: str | None, command: str | None) -> AsyncIterator[Summarizer]:
    """Give the model that the options name, for the block. Raises InputError, saying what is missing."""
    if command:
        yield CommandModel(command)
        return
    model = model or os.environ.get(MODEL_VARIABLE)
    if not model:
        raise InputError(
            f"Name the model to ask: --model NAME (or {MODEL_VARIABLE}), with --base-url for a service of your own, or "
            f"--command.",
            field="model",
        )
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise InputError(f"--base-url starts with https:// or http://, not {redacted(base_url)!r}.", field="base_url")
    async with openai_model(model, base_url) as summarizer:
        yield summarizer
