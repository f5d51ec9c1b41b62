"""Summaries from OpenAI's chat API or any compatible server."""

from __future__ import annotations

from memoranda_openai.chat import OpenAIChat


class OpenAISummarizer(OpenAIChat):
    """A summarizer that calls a model behind OpenAI's chat API, or a compatible one at ``base_url``.

    It takes the options, and raises the errors, of :class:`OpenAIChat`.
    """

    async def summarize(self, prompt: str) -> str:
        """Return the model's answer to the prompt."""
        return (await self.answer(prompt)).text
