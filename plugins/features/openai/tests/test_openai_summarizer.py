"""OpenAISummarizer against a real HTTP server that speaks the chat API and misbehaves on demand."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError, SummarizerUnavailableError, SummaryError
from memoranda.store import InMemoryStore
from memoranda_openai import OpenAISummarizer
from memoranda_summary import Summarizer, SummaryConfig, compact
from servers import ModelServer, completion

KEY = "sk-a-very-secret-key"
SECRET = "the prompt is a secret"


@pytest_asyncio.fixture
async def make(server: ModelServer) -> AsyncIterator[Any]:
    """Makes summarizers for the server, and closes them."""
    made = []

    def make(**options: Any) -> OpenAISummarizer:
        summarizer = OpenAISummarizer(**{"model": "m", "api_key": KEY, "base_url": server.url, **options})
        made.append(summarizer)
        return summarizer

    yield make
    for summarizer in made:
        await summarizer.aclose()


async def test_a_prompt_is_answered(server: ModelServer, make: Any) -> None:
    summarizer = make()
    assert isinstance(summarizer, Summarizer)
    assert await summarizer.summarize("Sum {up}.") == "In short."
    assert server.requests == [{"model": "m", "messages": [{"role": "user", "content": "Sum {up}."}]}]
    assert server.keys == [f"Bearer {KEY}"]


async def test_parameters_are_sent_only_where_they_are_given(server: ModelServer, make: Any) -> None:
    await make(max_tokens=500, temperature=0.0).summarize("x")
    assert (server.requests[0]["max_tokens"], server.requests[0]["temperature"]) == (500, 0.0)


async def test_the_key_comes_from_the_environment(
    server: ModelServer, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    await make(api_key=None).summarize("x")
    assert server.keys == ["Bearer sk-of-the-environment"]


async def test_a_server_of_your_own_needs_no_key_and_openai_does(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert await make(api_key=None).summarize("x") == "In short."
    with pytest.raises(SummaryError, match="OPENAI_API_KEY"):
        await OpenAISummarizer().summarize("x")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_passes_is_tried_again(server: ModelServer, make: Any, status: int) -> None:
    server.refuses(status, times=2)
    assert await make(max_retries=3).summarize("x") == "In short."
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 500])
async def test_what_does_not_pass_is_unavailable(server: ModelServer, make: Any, status: int) -> None:
    server.refuses(status, times=9)
    with pytest.raises(SummarizerUnavailableError, match=str(status)) as caught:
        await make(max_retries=1).summarize("x")
    assert isinstance(caught.value, ConnectionError)
    assert isinstance(caught.value, SummaryError)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_what_is_refused_is_not_tried_again_and_shows_neither_key_nor_prompt(
    server: ModelServer, make: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses(status, message=f"Bad key {KEY} or prompt {SECRET}")
    with caplog.at_level(logging.INFO), pytest.raises(SummaryError, match=str(status)) as caught:
        await make().summarize(SECRET)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert KEY not in told
    assert f"Bad key {KEY}" not in told
    assert f"prompt {SECRET}" not in told
    assert len(server.requests) == 1


async def test_a_server_that_is_too_slow_is_given_up(server: ModelServer, make: Any) -> None:
    server.delay = 60
    with pytest.raises(SummarizerUnavailableError, match=r"0\.1 seconds"):
        await make(timeout=0.1, max_retries=0).summarize("x")


async def test_a_server_that_is_not_there_is_unavailable(make: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(SummarizerUnavailableError, match="cannot be reached"):
            await make(base_url=url, max_retries=0).summarize("x")


@pytest.mark.parametrize(
    "body",
    [
        b"<html>gateway</html>",
        b"not json at all",
        b"{",
        {},
        [],
        {"choices": []},
        {"choices": None},
        {"choices": [{"index": 0, "finish_reason": "stop"}]},
        "text",
        None,
    ],
)
async def test_an_answer_that_is_no_completion_is_an_error(server: ModelServer, make: Any, body: Any) -> None:
    server.says(body)
    with pytest.raises(SummaryError):
        await make(max_retries=0).summarize("x")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (completion(""), "empty"),
        (completion("  \n"), "empty"),
        (completion(None), "empty"),
        (completion("<think>hm</think>\n"), "empty"),
        (completion(["x"]), "empty"),
        (completion("half a sum", reason="length"), "cut off"),
        (completion("", reason="content_filter"), "withheld"),
        (completion(None, refusal="I will not."), "withheld"),
    ],
)
async def test_an_answer_that_is_empty_cut_off_or_withheld_is_an_error(
    server: ModelServer, make: Any, body: Any, reason: str
) -> None:
    server.says(body)
    with pytest.raises(SummaryError, match=reason):
        await make().summarize("x")


async def test_what_a_model_thought_is_taken_off_its_answer(server: ModelServer, make: Any) -> None:
    server.says(completion("<think>\nLet me see <b>.\n</think>\n\nIn short, tea."))
    assert await make().summarize("x") == "In short, tea."


async def test_cancelling_is_not_turned_into_an_error(server: ModelServer, make: Any) -> None:
    server.delay = 60
    task = asyncio.create_task(make().summarize("x"))
    while not server.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_one_summarizer_serves_event_loops_after_each_other(server: ModelServer) -> None:
    summarizer = OpenAISummarizer("m", api_key=KEY, base_url=server.url)

    async def ask() -> str:
        async with summarizer:
            return await summarizer.summarize("x")

    assert [asyncio.run(ask()) for _ in range(2)] == ["In short."] * 2


def test_a_representation_hides_the_key() -> None:
    assert repr(OpenAISummarizer("m", api_key=KEY)) == "OpenAISummarizer('m')"


@pytest.mark.parametrize(
    ("option", "value"), [("model", ""), ("timeout", 0), ("timeout", float("inf")), ("max_retries", -1)]
)
def test_options_that_make_no_sense_are_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(InputError) as refused:
        OpenAISummarizer(**{option: value})
    assert refused.value.field == option


async def test_a_conversation_is_compacted_through_the_api(server: ModelServer, make: Any) -> None:
    store, ada = InMemoryStore(), MemoryMetadata(user_id="ada")
    await store.add_many(HumanMemory(content=f"Message {number}", metadata=ada) for number in range(25))
    config = SummaryConfig(prompts={"conversation": "Sum up."})
    server.refuses(500, times=1)
    await compact(store, ada, config, make())
    assert [item.content for item in await store.search(metadata=ada)][-1] == "In short."
    assert "Message 20" in server.requests[0]["messages"][0]["content"]


async def test_when_the_api_fails_nothing_is_changed(server: ModelServer, make: Any) -> None:
    store, ada = InMemoryStore(), MemoryMetadata(user_id="ada")
    await store.add_many(HumanMemory(content=f"Message {number}", metadata=ada) for number in range(25))
    server.refuses(401)
    with pytest.raises(SummaryError, match="401"):
        await compact(store, ada, SummaryConfig(prompts={"conversation": "Sum up."}), make())
    assert len(await store.search(metadata=ada, limit=99)) == 25


def test_the_package_openai_is_imported_when_a_question_is_asked() -> None:
    program = (
        "import sys; from memoranda_openai.service import OpenAISummarizer; OpenAISummarizer('m');"
        "sys.exit('openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
