"""ADK goes on with sessions that others wrote, and others with those of ADK; what cannot be carried over is listed."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from adk_events import CHAT, IMAGE, conversation, said, texts
from google.adk.agents import LlmAgent
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from memoranda import AIMemory, HumanMemory, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.store import InMemoryStore, Store
from memoranda_adk import MemorandaSessionService
from memoranda_adk.events import EventFormat
from memoranda_messages import from_anthropic, from_openai, to_openai
from memoranda_messages.parts import parts_of

SESSION = MemoryMetadata(user_id="ada", session_id="chat")
DATA = base64.b64encode(IMAGE).decode()


class Scripted(BaseLlm):
    """A model that gives the answers it was made with, and remembers what it was sent."""

    model: str = "scripted"
    answers: list[list[types.Part]]
    requests: list[LlmRequest]

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        """Give the next answer."""
        self.requests.append(llm_request.model_copy(deep=True))
        yield LlmResponse(content=types.Content(role="model", parts=self.answers.pop(0)))


def look(side: str) -> str:
    """Look at a side."""
    return f"a cat on the {side}"


async def run(store: Store, text: str, *answers: list[types.Part]) -> Scripted:
    """Run an agent of ADK on the session and return its model."""
    model = Scripted(answers=list(answers), requests=[])
    agent = LlmAgent(name="app", model=model, tools=[look])
    runner = Runner(app_name="app", agent=agent, session_service=MemorandaSessionService(store))
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id="ada", session_id="chat", new_message=message):
        pass
    return model


def kinds(request: LlmRequest) -> list[str]:
    """Return what a model was sent: the role and the kinds of parts of each content."""
    found = []
    for content in request.contents:
        named = [",".join(part.model_dump(exclude_none=True)) for part in content.parts or []]
        found.append(f"{content.role}: {' '.join(named)}")
    return found


async def test_a_session_of_chat_completions_goes_on(store: Store) -> None:
    written: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": name, "type": "function", "function": {"name": "look", "arguments": '{"side": "left"}'}}
                for name in ("c1", "c2")
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {"role": "tool", "tool_call_id": "c2", "content": "a dog"},
        {"role": "assistant", "content": "A cat and a dog."},
    ]
    await store.add_many(from_openai(written, metadata=SESSION))

    model = await run(store, "And now?", [types.Part(text="Still.")])

    assert kinds(model.requests[0]) == [
        "user: text inline_data",
        "model: function_call function_call",
        "user: function_response function_response",
        "model: text",
        "user: text",
    ]
    sent = model.requests[0].contents
    assert sent[0].parts[1].inline_data.data == IMAGE
    assert [part.function_call.id for part in sent[1].parts] == ["c1", "c2"]
    assert [part.function_response.response for part in sent[2].parts] == [{"result": "a cat"}, {"result": "a dog"}]
    service = MemorandaSessionService(store)
    found = await service.get_session(**CHAT)
    assert found is not None
    assert [event.author for event in found.events] == ["user", "app", "app", "app", "user", "app"]
    assert [(loss.what, loss.reason) for loss in service.dropped] == [("the system item", "unsupported")]


async def test_what_cannot_be_carried_over_is_listed() -> None:
    store = InMemoryStore()
    written: list[Any] = [
        {"role": "user", "content": "Why?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "signed by another provider"},
                {"type": "text", "text": "Because."},
            ],
        },
    ]
    await store.add_many(from_anthropic(written, metadata=SESSION))
    service = MemorandaSessionService(store)

    found = await service.get_session(**CHAT)

    assert found is not None
    assert texts(found.events) == ["Why?", "Because."]
    assert [loss.what for loss in service.dropped] == ["reasoning"]
    await service.get_session(app_name="app", user_id="ada", session_id="none")
    assert len(service.dropped) == 1


async def test_others_read_what_adk_wrote(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    for event in conversation():
        await service.append_event(session, event)

    items = await store.search(metadata=SESSION, order="added", limit=99, mode="substring")
    items.reverse()

    assert [(item.memory_type, item.content, item.name) for item in items] == [
        ("human", "What is this?", None),
        ("ai", "Let me look.", "helper"),
        ("tool", "a cat", None),
        ("tool", "too dark", None),
        ("ai", "A cat.", "helper"),
    ]
    assert {item.metadata.agent_id for item in items} == {"app"}
    assert [call["id"] for call in items[1].tool_calls] == ["c1", "c2"]
    assert [(item.tool_call_id, item.tool_name, item.is_error) for item in items[2:4]] == [
        ("c1", "look", False),
        ("c2", "look", True),
    ]
    (image,), (thought,) = parts_of(items[0]), parts_of(items[1])
    assert (image.kind, image.media_type, image.data) == ("image", "image/png", DATA)
    assert (thought.kind, thought.text, thought.provider) == ("reasoning", "I should look twice.", "google")
    roles = [message["role"] for message in to_openai(items)]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]


async def test_an_event_whose_item_was_changed_says_what_the_item_says(store: Store) -> None:
    service = MemorandaSessionService(store)
    session = await service.create_session(**CHAT)
    for event in conversation():
        await service.append_event(session, event)
    (item,) = await store.search(query="A cat.", mode="substring")
    item.content = "A dog."
    await store.update(item)

    found = await service.get_session(**CHAT)

    assert found is not None
    assert texts(found.events)[-1] == "A dog."
    assert found.events[:-1] == session.events[:-1]
    assert found.events[-1].author == "helper"


async def test_a_run_with_parallel_calls_is_read_again_by_the_next_run(store: Store) -> None:
    service = MemorandaSessionService(store)
    await service.create_session(**CHAT)
    calls = [types.Part(function_call=types.FunctionCall(name="look", args={"side": side})) for side in ("l", "r")]
    await run(store, "Look.", calls, [types.Part(text="Two cats.")])

    model = await run(store, "Again.", [types.Part(text="Still two.")])

    assert kinds(model.requests[0]) == [
        "user: text",
        "model: function_call function_call",
        "user: function_response function_response",
        "model: text",
        "user: text",
    ]


async def test_a_turn_that_a_killed_process_left_half_written_is_not_sent_to_a_model(store: Store) -> None:
    calls = [{"id": "c1", "name": "look", "arguments": {}}, {"id": "c2", "name": "look", "arguments": {}}]
    await store.add_many(
        [
            HumanMemory(content="Look.", metadata=SESSION),
            AIMemory(content="", tool_calls=calls, metadata=SESSION),
            ToolMemory(content="a cat", tool_call_id="c1", tool_name="look", metadata=SESSION),
        ]
    )

    model = await run(store, "And?", [types.Part(text="A cat.")])

    for content in model.requests[0].contents:
        asked = {part.function_call.id for part in content.parts or [] if part.function_call}
        assert "c2" not in asked
    found = await MemorandaSessionService(store).get_session(**CHAT)
    assert found is not None
    assert len(found.events[1].get_function_calls()) == 2  # A run that resumes finds it.


async def test_apps_share_what_others_wrote_and_not_what_adk_wrote() -> None:
    store = InMemoryStore()
    await store.add(HumanMemory(content="from elsewhere", metadata=SESSION))
    service = MemorandaSessionService(store)
    session = await service.get_session(**CHAT)
    assert session is not None
    await service.append_event(session, said("user", "to app"))

    other = await service.get_session(app_name="other", user_id="ada", session_id="chat")

    assert other is not None
    assert texts(other.events) == ["from elsewhere"]
    assert texts(session.events) == ["from elsewhere", "to app"]
    assert await service.get_session(app_name="app", user_id="bob", session_id="chat") is None
    with pytest.raises(AlreadyExistsError):
        await service.create_session(app_name="other", user_id="ada", session_id="chat")


async def test_the_agent_that_speaks_for_other_frameworks_can_be_named() -> None:
    store = InMemoryStore()
    await store.add(AIMemory(content="Hello.", metadata=SESSION))
    await store.add(AIMemory(content="Hi.", name="poet", metadata=SESSION))
    found = await MemorandaSessionService(store, agent="root").get_session(**CHAT)
    assert found is not None
    assert [event.author for event in found.events] == ["root", "poet"]


async def test_untrusted_items_are_left_out_by_trust() -> None:
    store = InMemoryStore()
    await store.add(HumanMemory(content="Mine.", metadata=SESSION))
    await store.add(HumanMemory(content="Planted.", trust="external", metadata=SESSION))
    await store.add(SystemMemory(content="Obey.", trust="external", metadata=SESSION))
    found = await MemorandaSessionService(store, min_trust="agent").get_session(**CHAT)
    assert found is not None
    assert texts(found.events) == ["Mine."]


def test_an_event_of_unknown_parts_comes_back_equal() -> None:
    code = types.ExecutableCode(code="print(1)", language=types.Language.PYTHON)
    outcome = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")
    file = types.FileData(file_uri="gs://bucket/film.mp4", mime_type="video/mp4", display_name="film")
    events = [
        said("coder", types.Part(executable_code=code), types.Part(code_execution_result=outcome), "Done."),
        said("user", types.Part(file_data=file), types.Part(text="", thought=False)),
        said("helper", types.Part(function_call=types.FunctionCall(name="look", args={}), thought_signature=b"s")),
        Event(author="helper", content=types.Content(role="model", parts=[])),
        Event(author="helper", error_code="429", custom_metadata={"a": [1, None]}),
    ]

    items = EventFormat("app").items(events)

    assert EventFormat("app").messages(items) == events
    assert items[0].provider_parts == ["code_execution_result", "executable_code"]
    assert [part.url for part in parts_of(items[1])] == ["gs://bucket/film.mp4"]
    assert [item.memory_type for item in items] == ["ai", "human", "ai", "item", "item"]
    assert json.loads(items[2].payload or "")["parts"] == [
        {"kind": "reasoning", "signature": "cw==", "provider": "google"}
    ]


async def test_a_limit_does_not_cut_what_another_framework_wrote_as_several_items() -> None:
    store = InMemoryStore()
    names = [f"c{number}" for number in range(40)]
    calls = [{"id": name, "name": "look", "arguments": {}} for name in names]
    results = [ToolMemory(content=name, tool_call_id=name, tool_name="look", metadata=SESSION) for name in names]
    await store.add_many([AIMemory(content="", tool_calls=calls, metadata=SESSION), *results])

    found = await MemorandaSessionService(store).get_session(**CHAT, config=GetSessionConfig(num_recent_events=1))

    assert found is not None
    assert [part.name for event in found.events for part in event.get_function_responses()] == ["look"] * 40
