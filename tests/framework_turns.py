"""How each framework uses a store, for tests of all of them.

Each has one entry in ``FRAMEWORKS``: how it writes a turn with an image, reasoning and two calls at once, how it goes
on, and what the next model is sent. What a provider would refuse is an error (see ``provider_rules``).
"""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

import pytest

from memoranda.store import Store
from memoranda_messages import (
    Dropped,
    from_anthropic,
    from_openai,
    from_responses,
    to_anthropic,
    to_openai,
    to_responses,
)
from memoranda_messages.sessions import Conversation
from provider_rules import check_anthropic, check_chat, check_responses

USER, APP, CHAT = "ada", "shop", "chat"
PIXEL = base64.b64encode(bytes(range(255, -1, -1))).decode()
IMAGE = f"data:image/png;base64,{PIXEL}"
QUESTION, THOUGHT, SAYING, ANSWER = "What is on this picture?", "Two tools may know.", "Let me see.", "A cat in Oslo."
MORE, LAST, SURE = "Whose cat is it?", "It is Ada's.", "Sure?"
RESULTS = {"call_1": "a cat", "call_2": "Oslo"}
TOOLS = {"call_1": "look", "call_2": "locate"}


class Sent(NamedTuple):
    """What the next model is sent, as JSON, and what the adapter reports as lost."""

    request: Any
    dropped: list[Dropped]


class GoesOn(Protocol):
    """Adds a question and an answer, again if another process comes first."""

    def __call__(self, store: Store, question: str = MORE, answer: str = LAST) -> Awaitable[None]: ...


class Framework(NamedTuple):
    """How a framework is used with a store."""

    write: Callable[[Store], Awaitable[None]]
    go_on: GoesOn
    next_request: Callable[[Store], Awaitable[Sent]]


def handle(store: Store) -> Store:
    """Return the handle for frameworks that know no users and apps."""
    return store.scoped(user_id=USER, agent_id=APP)


def chat_message(
    role: str,
    text: str = "",
    images: list[str] | None = None,
    calls: list[tuple[str, str, Any]] | None = None,
    result: str | None = None,
) -> dict[str, Any]:
    """Return a message of chat completions: what a framework without a converter of its own would send."""
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in images or ()]
    message: dict[str, Any] = {
        "role": role,
        "content": [{"type": "text", "text": text}, *pictures] if pictures else text,
    }
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for call_id, name, arguments in calls
        ]
    return message | ({"tool_call_id": result} if result else {})


# The formats of the providers themselves


CHAT_TURN = [
    chat_message("user", QUESTION, [IMAGE]),
    chat_message("assistant", SAYING, calls=[(each, name, {}) for each, name in TOOLS.items()])
    | {"reasoning_content": THOUGHT},
    *(chat_message("tool", text, result=each) for each, text in RESULTS.items()),
    chat_message("assistant", ANSWER),
]


async def write_chat(store: Store) -> None:
    await Conversation(handle(store), CHAT).append(from_openai(CHAT_TURN))


async def go_on_with_chat(store: Store, question: str = MORE, answer: str = LAST) -> None:
    messages = [chat_message("user", question), chat_message("assistant", answer)]
    await Conversation(handle(store), CHAT).append(from_openai(messages))


async def next_chat(store: Store) -> Sent:
    dropped: list[Dropped] = []
    messages = to_openai(await Conversation(handle(store), CHAT).shown(), dropped=dropped)
    check_chat(messages)
    return Sent(messages, dropped)


async def write_anthropic(store: Store) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    uses = [{"type": "tool_use", "id": each, "name": name, "input": {}} for each, name in TOOLS.items()]
    results = [{"type": "tool_result", "tool_use_id": each, "content": text} for each, text in RESULTS.items()]
    thinking = {"type": "thinking", "thinking": THOUGHT, "signature": "signed"}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, image]},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": SAYING}, *uses]},
        {"role": "user", "content": results},
        {"role": "assistant", "content": ANSWER},
    ]
    await Conversation(handle(store), CHAT).append(from_anthropic(messages))


async def go_on_with_anthropic(store: Store, question: str = MORE, answer: str = LAST) -> None:
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    await Conversation(handle(store), CHAT).append(from_anthropic(messages))


async def next_anthropic(store: Store) -> Sent:
    dropped: list[Dropped] = []
    system, messages = to_anthropic(await Conversation(handle(store), CHAT).shown(), dropped=dropped)
    check_anthropic(system, messages)
    return Sent(messages, dropped)


RESPONSES_TURN: list[Any] = [
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": QUESTION},
            {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": THOUGHT}],
        "encrypted_content": "e",
    },
    {"type": "message", "role": "assistant", "id": "m_1", "content": [{"type": "output_text", "text": SAYING}]},
    *({"type": "function_call", "call_id": each, "name": name, "arguments": "{}"} for each, name in TOOLS.items()),
    *({"type": "function_call_output", "call_id": each, "output": text} for each, text in RESULTS.items()),
    {"type": "message", "role": "assistant", "id": "m_2", "content": [{"type": "output_text", "text": ANSWER}]},
]


async def write_responses(store: Store) -> None:
    await Conversation(handle(store), CHAT).append(from_responses(RESPONSES_TURN))


async def go_on_with_responses(store: Store, question: str = MORE, answer: str = LAST) -> None:
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    await Conversation(handle(store), CHAT).append(from_responses(messages))


async def next_responses(store: Store) -> Sent:
    dropped: list[Dropped] = []
    items = to_responses(await Conversation(handle(store), CHAT).shown(), dropped=dropped)
    check_responses(items)
    return Sent(items, dropped)


# OpenAI Agents


async def write_agents(store: Store) -> None:
    from memoranda_openai_agents import MemorandaSession

    await MemorandaSession(CHAT, handle(store)).add_items(RESPONSES_TURN)


async def go_on_with_agents(store: Store, question: str = MORE, answer: str = LAST) -> None:
    from memoranda_openai_agents import MemorandaSession

    items: Any = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    await MemorandaSession(CHAT, handle(store)).add_items(items)


async def next_of_agents(store: Store) -> Sent:
    from agents import Agent, Runner
    from agents.testing import ScriptedModel
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    from memoranda_openai_agents import MemorandaSession

    session = MemorandaSession(CHAT, handle(store))
    model = ScriptedModel()
    text = ResponseOutputText(text="Yes.", type="output_text", annotations=[], logprobs=[])
    said = ResponseOutputMessage(id="m", type="message", role="assistant", content=[text], status="completed")
    model.enqueue([said])
    await Runner.run(Agent(name=APP, model=model), SURE, session=session)
    items: Any = [dict(item) for item in model.calls[-1].input]  # type: ignore[arg-type]
    check_responses(items)
    return Sent(items, session.dropped)


# Pydantic AI


async def write_pydantic_ai(store: Store) -> None:
    from pydantic_ai.conversation import Conversation as Saved
    from pydantic_ai.messages import (
        BinaryContent,
        ModelRequest,
        ModelResponse,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    from memoranda_pydantic_ai import MemorandaConversationStore

    image = BinaryContent(base64.b64decode(PIXEL), media_type="image/png")
    calls = [ToolCallPart(name, {}, each) for each, name in TOOLS.items()]
    thinking = ThinkingPart(THOUGHT, signature="signed", provider_name="anthropic")
    messages: list[Any] = [
        ModelRequest(parts=[UserPromptPart([QUESTION, image])]),
        ModelResponse(parts=[thinking, TextPart(SAYING), *calls]),
        ModelRequest(parts=[ToolReturnPart(TOOLS[each], text, each) for each, text in RESULTS.items()]),
        ModelResponse(parts=[TextPart(ANSWER)]),
    ]
    await MemorandaConversationStore(handle(store)).save(Saved(conversation_id=CHAT, messages=messages))


async def go_on_with_pydantic_ai(store: Store, question: str = MORE, answer: str = LAST) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation as Saved
    from pydantic_ai.conversation_store import ConversationConflict
    from pydantic_ai.models.test import TestModel

    from memoranda_pydantic_ai import MemorandaConversationStore

    conversations = MemorandaConversationStore(handle(store))
    agent = Agent(TestModel(custom_output_text=answer, call_tools=[]))
    while True:
        conversation = await conversations.load(CHAT) or Saved(conversation_id=CHAT)
        run = await agent.run(question, conversation=conversation)
        try:
            await conversations.save(run)
        except ConversationConflict:
            continue
        return


async def next_of_pydantic_ai(store: Store) -> Sent:
    """Return what Pydantic AI sends to OpenAI, once it has gone through all of its own code."""
    import httpx
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from memoranda_pydantic_ai import MemorandaConversationStore

    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        message = {"role": "assistant", "content": "Yes."}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return httpx.Response(200, json=body)

    conversations = MemorandaConversationStore(handle(store))
    conversation = await conversations.load(CHAT)
    dropped = conversations.dropped
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = OpenAIProvider(openai_client=AsyncOpenAI(api_key="none", http_client=client))
        await Agent(OpenAIChatModel("gpt-4o", provider=provider)).run(SURE, conversation=conversation)
    check_chat(sent[-1]["messages"])
    return Sent(sent[-1]["messages"], dropped)


# LangChain


async def write_langchain(store: Store) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from memoranda_langchain import MemorandaChatMessageHistory

    calls = [{"id": each, "name": name, "args": {}, "type": "tool_call"} for each, name in TOOLS.items()]
    content: list[Any] = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    thinking: list[Any] = [{"type": "reasoning", "reasoning": THOUGHT}, {"type": "text", "text": SAYING}]
    await MemorandaChatMessageHistory(CHAT, handle(store)).aadd_messages(
        [
            HumanMessage(content=content),
            AIMessage(content=thinking, tool_calls=calls),
            *(ToolMessage(text, tool_call_id=each) for each, text in RESULTS.items()),
            AIMessage(ANSWER),
        ]
    )


async def go_on_with_langchain(store: Store, question: str = MORE, answer: str = LAST) -> None:
    from langchain_core.messages import AIMessage, HumanMessage

    from memoranda_langchain import MemorandaChatMessageHistory

    await MemorandaChatMessageHistory(CHAT, handle(store)).aadd_messages([HumanMessage(question), AIMessage(answer)])


async def next_of_langchain(store: Store) -> Sent:
    """Return what a chain with a history asks its model."""
    from langchain_core.messages import AIMessage, HumanMessage, convert_to_openai_messages
    from langchain_core.runnables import RunnableLambda
    from langchain_core.runnables.history import RunnableWithMessageHistory

    from memoranda_langchain import MemorandaChatMessageHistory

    asked: list[Any] = []

    def answer(messages: Any) -> AIMessage:
        asked.append(messages)
        return AIMessage("Yes.")

    history = MemorandaChatMessageHistory(CHAT, handle(store))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        chain = RunnableWithMessageHistory(RunnableLambda(answer), lambda _: history)
    await chain.ainvoke([HumanMessage(SURE)], {"configurable": {"session_id": CHAT}})
    messages: Any = convert_to_openai_messages(asked[-1])
    check_chat(messages)
    return Sent(messages, history.dropped)


# LlamaIndex


async def write_llama_index(store: Store) -> None:
    from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock

    from memoranda_llama_index import MemorandaChatStore

    calls = [ToolCallBlock(tool_call_id=each, tool_name=name, tool_kwargs={}) for each, name in TOOLS.items()]
    image = ImageBlock(image=base64.b64decode(PIXEL), image_mimetype="image/png")
    await MemorandaChatStore(handle(store)).add_messages(
        CHAT,
        [
            ChatMessage(role="user", blocks=[TextBlock(text=QUESTION), image]),
            ChatMessage(role="assistant", blocks=[ThinkingBlock(content=THOUGHT), TextBlock(text=SAYING), *calls]),
            *(
                ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": each})
                for each, text in RESULTS.items()
            ),
            ChatMessage(role="assistant", content=ANSWER),
        ],
    )


async def go_on_with_llama_index(store: Store, question: str = MORE, answer: str = LAST) -> None:
    from llama_index.core.base.llms.types import ChatMessage

    from memoranda_llama_index import MemorandaChatStore

    said = [ChatMessage(role="user", content=question), ChatMessage(role="assistant", content=answer)]
    await MemorandaChatStore(handle(store)).add_messages(CHAT, said)


async def next_of_llama_index(store: Store) -> Sent:
    """Return what LlamaIndex's memory gives an agent that was asked something."""
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory

    from memoranda_llama_index import MemorandaChatStore

    chat_store = MemorandaChatStore(handle(store))
    memory = Memory.from_defaults(session_id=CHAT, chat_store=chat_store)
    await memory.aput(ChatMessage(role="user", content=SURE))
    messages = []
    for message in await memory.aget():
        blocks: Any = message.blocks
        images = [_data_url(block.image, block.image_mimetype) for block in blocks if block.block_type == "image"]
        calls = [(each.tool_call_id, each.tool_name, {}) for each in blocks if each.block_type == "tool_call"]
        result = message.additional_kwargs.get("tool_call_id")
        messages.append(chat_message(message.role.value, message.content or "", images, calls, result))
    check_chat(messages)
    return Sent(messages, chat_store.dropped)


def _data_url(data: bytes | None, media_type: str | None) -> str:
    return f"data:{media_type};base64,{(data or b'').decode()}"


# Agent Framework


async def write_agent_framework(store: Store) -> None:
    from agent_framework import Content, Message

    from memoranda_agent_framework import MemorandaHistoryProvider

    calls = [Content.from_function_call(each, name, arguments="{}") for each, name in TOOLS.items()]
    results = [Content.from_function_result(each, result=text) for each, text in RESULTS.items()]
    await MemorandaHistoryProvider(handle(store)).save_messages(
        CHAT,
        [
            Message("user", [QUESTION, Content.from_data(base64.b64decode(PIXEL), "image/png")]),
            Message("assistant", [Content.from_text_reasoning(text=THOUGHT), SAYING, *calls]),
            Message("tool", results),
            Message("assistant", [ANSWER]),
        ],
    )


async def go_on_with_agent_framework(store: Store, question: str = MORE, answer: str = LAST) -> None:
    from agent_framework import Message

    from memoranda_agent_framework import MemorandaHistoryProvider

    said = [Message("user", [question]), Message("assistant", [answer])]
    await MemorandaHistoryProvider(handle(store)).save_messages(CHAT, said)


async def next_of_agent_framework(store: Store) -> Sent:
    """Return what an agent asks its model, once it has gone through all of the framework's own code."""
    from agent_framework import Agent, BaseChatClient, ChatResponse, FunctionInvocationLayer, Message

    from memoranda_agent_framework import MemorandaHistoryProvider

    asked: list[Any] = []

    class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
            async def answer() -> ChatResponse[Any]:
                asked.append(list(messages))
                return ChatResponse(messages=[Message("assistant", ["Yes."])])

            return answer()

    provider = MemorandaHistoryProvider(handle(store))
    agent = Agent(Scripted(), context_providers=[provider])
    await agent.run(SURE, session=agent.create_session(session_id=CHAT))
    messages = []
    for message in asked[-1]:
        contents: Any = message.contents
        if results := [each for each in contents if each.type == "function_result"]:
            messages += [chat_message("tool", str(each.result), result=each.call_id) for each in results]
            continue
        images = [each.uri for each in contents if each.type in ("data", "uri")]
        calls = [(each.call_id, each.name, {}) for each in contents if each.type == "function_call"]
        messages.append(chat_message(str(message.role), message.text, images, calls))
    check_chat(messages)
    return Sent(messages, provider.dropped)


# Google ADK


async def write_adk(store: Store) -> None:
    from google.genai import types

    image = types.Part(inline_data=types.Blob(data=base64.b64decode(PIXEL), mime_type="image/png"))
    calls = [types.Part(function_call=types.FunctionCall(id=each, name=name, args={})) for each, name in TOOLS.items()]
    results = [
        types.Part(function_response=types.FunctionResponse(id=each, name=TOOLS[each], response={"result": text}))
        for each, text in RESULTS.items()
    ]
    await _append_events(
        store,
        [
            ("user", types.Content(role="user", parts=[types.Part(text=QUESTION), image])),
            (
                APP,
                types.Content(
                    role="model", parts=[types.Part(text=THOUGHT, thought=True), types.Part(text=SAYING), *calls]
                ),
            ),
            (APP, types.Content(role="user", parts=results)),
            (APP, types.Content(role="model", parts=[types.Part(text=ANSWER)])),
        ],
    )


async def go_on_with_adk(store: Store, question: str = MORE, answer: str = LAST) -> None:
    from google.genai import types

    said = [("user", types.Content(role="user", parts=[types.Part(text=question)]))]
    await _append_events(store, [*said, (APP, types.Content(role="model", parts=[types.Part(text=answer)]))])


async def _append_events(store: Store, contents: list[tuple[str, Any]]) -> None:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.events import Event

    from memoranda_adk import MemorandaSessionService

    service = MemorandaSessionService(store)
    named = {"app_name": APP, "user_id": USER, "session_id": CHAT}
    waiting = [Event(author=author, content=content, invocation_id="i") for author, content in contents]
    while waiting:
        try:
            session = await service.get_session(**named) or await service.create_session(**named)
            while waiting:
                await service.append_event(session, waiting[0])
                del waiting[0]
        except (AlreadyExistsError, StaleSessionError):
            continue  # Another process has gone on with the session, which is loaded again.


async def next_of_adk(store: Store) -> Sent:
    """Return what ADK's runner asks a model, once it has gone through all of ADK's own code."""
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.genai import types

    from memoranda_adk import MemorandaSessionService

    asked: list[Any] = []

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            asked.append(llm_request.contents)
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Yes.")]))

    service = MemorandaSessionService(store)
    runner = Runner(app_name=APP, agent=LlmAgent(name=APP, model=Scripted(model="scripted")), session_service=service)
    question = types.Content(role="user", parts=[types.Part(text=SURE)])
    async for _ in runner.run_async(user_id=USER, session_id=CHAT, new_message=question):
        pass
    messages = []
    for content in asked[-1]:
        parts: Any = content.parts
        if results := [part.function_response for part in parts if part.function_response]:
            messages += [chat_message("tool", json.dumps(each.response), result=each.id) for each in results]
            continue
        images = [_bytes_url(part.inline_data.data) for part in parts if part.inline_data]
        calls = [(part.function_call.id, part.function_call.name, {}) for part in parts if part.function_call]
        text = " ".join(part.text for part in parts if part.text and not part.thought)
        messages.append(chat_message("user" if content.role == "user" else "assistant", text, images, calls))
    check_chat(messages)
    return Sent(messages, service.dropped)


def _bytes_url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


# Strands


async def write_strands(store: Store) -> None:
    uses = [{"toolUse": {"toolUseId": each, "name": name, "input": {}}} for each, name in TOOLS.items()]
    results = [
        {"toolResult": {"toolUseId": each, "status": "success", "content": [{"text": text}]}}
        for each, text in RESULTS.items()
    ]
    image = {"image": {"format": "png", "source": {"bytes": base64.b64decode(PIXEL)}}}
    thinking = {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": "signed"}}}
    await _create_messages(
        store,
        [
            {"role": "user", "content": [{"text": QUESTION}, image]},
            {"role": "assistant", "content": [thinking, {"text": SAYING}, *uses]},
            {"role": "user", "content": results},
            {"role": "assistant", "content": [{"text": ANSWER}]},
        ],
    )


async def go_on_with_strands(store: Store, question: str = MORE, answer: str = LAST) -> None:
    said = [{"role": "user", "content": [{"text": question}]}, {"role": "assistant", "content": [{"text": answer}]}]
    await _create_messages(store, said)


async def _create_messages(store: Store, messages: list[Any]) -> None:
    from strands.agent.conversation_manager import SlidingWindowConversationManager
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    from memoranda_strands import MemorandaSessionRepository

    repository = MemorandaSessionRepository(store.scoped(user_id=USER))
    waiting = list(messages)
    while waiting:
        try:
            if repository.read_session(CHAT) is None:
                repository.create_session(Session(session_id=CHAT, session_type=SessionType.AGENT))
            if repository.read_agent(CHAT, APP) is None:
                repository.create_agent(CHAT, SessionAgent(APP, {}, SlidingWindowConversationManager().get_state()))
            number = max([message.message_id for message in repository.list_messages(CHAT, APP)], default=-1) + 1
            repository.create_message(CHAT, APP, SessionMessage(message=waiting[0], message_id=number))
        except SessionException:
            continue  # Another process has stored a message of this number.
        del waiting[0]


async def next_of_strands(store: Store) -> Sent:
    """Return what Strands sends to OpenAI for the messages that its session manager gives an agent."""
    from strands import Agent
    from strands.models.openai import OpenAIModel
    from strands.session.repository_session_manager import RepositorySessionManager

    from memoranda_strands import MemorandaSessionRepository

    repository = MemorandaSessionRepository(store.scoped(user_id=USER))
    manager = RepositorySessionManager(CHAT, repository)
    agent = Agent(OpenAIModel({"api_key": "none"}, model_id="gpt-4o"), agent_id=APP, session_manager=manager)
    messages = OpenAIModel.format_request_messages(agent.messages)
    check_chat(messages)
    return Sent(messages, repository.dropped)


FRAMEWORKS: dict[str, Framework] = {
    "chat completions": Framework(write_chat, go_on_with_chat, next_chat),
    "responses": Framework(write_responses, go_on_with_responses, next_responses),
    "anthropic": Framework(write_anthropic, go_on_with_anthropic, next_anthropic),
    "openai-agents": Framework(write_agents, go_on_with_agents, next_of_agents),
    "pydantic-ai": Framework(write_pydantic_ai, go_on_with_pydantic_ai, next_of_pydantic_ai),
    "langchain": Framework(write_langchain, go_on_with_langchain, next_of_langchain),
    "llama-index": Framework(write_llama_index, go_on_with_llama_index, next_of_llama_index),
    "agent-framework": Framework(write_agent_framework, go_on_with_agent_framework, next_of_agent_framework),
    "adk": Framework(write_adk, go_on_with_adk, next_of_adk),
    "strands": Framework(write_strands, go_on_with_strands, next_of_strands),
}

NEEDS = {
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai.conversation_store",
    "langchain": "memoranda_langchain",
    "llama-index": "llama_index.core",
    "agent-framework": "agent_framework",
    "adk": "google.adk",
    "strands": "strands",
}
"""What a framework needs; where it is not installed, its tests are skipped."""


ADAPTERS = tuple(NEEDS)


def framework(name: str) -> Framework:
    """Return how a framework is used, or skip the test."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return FRAMEWORKS[name]
