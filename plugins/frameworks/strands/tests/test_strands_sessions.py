"""Sessions of Strands on every engine: what its own tests of the session manager do not ask."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from strands.agent.conversation_manager import NullConversationManager, SummarizingConversationManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from strands_messages import IMAGE, Parrot, agent, conversation, kinds

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.store import InMemoryStore, Store
from memoranda_messages import to_openai
from memoranda_messages.parts import parts_of
from memoranda_strands import MemorandaSessionRepository
from memoranda_strands.messages import SessionMessageFormat

CHAT = MemoryMetadata(user_id="ada", session_id="chat")


@pytest.fixture
def repository(store: Store) -> MemorandaSessionRepository:
    return MemorandaSessionRepository(store.scoped(user_id="ada"))


def filled(repository: MemorandaSessionRepository, name: str = "helper") -> list[SessionMessage]:
    """Store a conversation of an agent and return its messages."""
    if repository.read_session("chat") is None:
        repository.create_session(Session("chat", SessionType.AGENT))
    repository.create_agent("chat", SessionAgent(name, {"city": "Oslo"}, {}))
    messages = [SessionMessage.from_message(each, number) for number, each in enumerate(conversation())]
    for message in messages:
        repository.create_message("chat", name, message)
    return messages


async def test_messages_come_back_equal_in_pages(repository: MemorandaSessionRepository) -> None:
    messages = filled(repository)

    assert repository.list_messages("chat", "helper") == messages
    assert repository.list_messages("chat", "helper", limit=2, offset=1) == messages[1:3]
    assert repository.list_messages("chat", "helper", limit=0) == []
    assert repository.list_messages("chat", "helper", offset=9) == []
    assert repository.read_message("chat", "helper", 2) == messages[2]
    assert repository.read_message("chat", "helper", 9) is None
    assert repository.dropped == []


async def test_agents_of_one_session_have_their_own_messages_and_state(repository: MemorandaSessionRepository) -> None:
    first, second = filled(repository, "first"), filled(repository, "second")
    repository.create_message("chat", "second", SessionMessage.from_message(conversation()[0], 4))
    repository.update_agent("chat", SessionAgent("second", {"city": "Rome"}, {}))

    assert repository.list_messages("chat", "first") == first
    assert repository.list_messages("chat", "second")[:4] == second
    assert len(repository.list_messages("chat", "second")) == 5
    states = [found.state for name in ("first", "second") if (found := repository.read_agent("chat", name))]
    assert states == [{"city": "Oslo"}, {"city": "Rome"}]
    assert repository.read_agent("chat", "third") is None


async def test_what_exists_is_not_created_again_and_what_does_not_is_not_changed(
    repository: MemorandaSessionRepository,
) -> None:
    (message, *_) = filled(repository)
    unknown = SessionMessage.from_message(conversation()[0], 77)
    refused: list[Any] = [
        lambda: repository.create_session(Session("chat", SessionType.AGENT)),
        lambda: repository.create_agent("chat", SessionAgent("helper", {}, {})),
        lambda: repository.create_agent("none", SessionAgent("helper", {}, {})),
        lambda: repository.create_message("chat", "helper", message),
        lambda: repository.create_message("chat", "none", unknown),
        lambda: repository.update_agent("chat", SessionAgent("none", {}, {})),
        lambda: repository.update_message("chat", "helper", unknown),
    ]
    for call in refused:
        with pytest.raises(SessionException, match="exist"):
            call()
    assert len(repository.list_messages("chat", "helper")) == 4


async def test_a_redacted_message_says_what_it_was_redacted_to(
    store: Store, repository: MemorandaSessionRepository
) -> None:
    messages = filled(repository)
    for number in (0, 2):
        messages[number].redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
        repository.update_message("chat", "helper", messages[number])

    found = repository.list_messages("chat", "helper")

    assert [each.to_message() for each in found] == [each.to_message() for each in messages]
    assert [each.message_id for each in found] == [0, 1, 2, 3]
    shown = await store.search(metadata=CHAT, limit=99, mode="substring", order="added")
    assert [item.content for item in reversed(shown)] == ["[redacted]", "Let me look.", "[redacted]", "A cat."]


async def test_of_several_processes_at_the_same_message_one_is_taken(
    store: Store, repository: MemorandaSessionRepository
) -> None:
    filled(repository)
    writers = [MemorandaSessionRepository(store.scoped(user_id="ada")) for _ in range(4)]

    def write(number: int) -> bool:
        message: Any = {"role": "user", "content": [{"text": str(number)}]}
        try:
            writers[number].create_message("chat", "helper", SessionMessage.from_message(message, 4))
        except SessionException:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        taken = await asyncio.to_thread(lambda: list(threads.map(write, range(4))))

    assert sum(taken) == 1
    assert repository.list_messages("chat", "helper")[4].message["content"] == [{"text": str(taken.index(True))}]


async def test_an_agent_goes_on_after_a_restart(store: Store, repository: MemorandaSessionRepository) -> None:
    first = agent(repository)
    first.state.set("city", "Oslo")
    await first.invoke_async("My flat is in Oslo.")
    second = agent(MemorandaSessionRepository(store.scoped(user_id="ada")))
    await second.invoke_async("Where is it?")

    assert second.state.get() == {"city": "Oslo"}
    assert isinstance(second.model, Parrot)
    assert kinds(second.model.requests[0]) == ["user: text", "assistant: text", "user: text"]
    assert agent(MemorandaSessionRepository(store.scoped(user_id="bob"))).messages == []


def test_a_program_without_async_uses_a_sync_store() -> None:
    with memoranda.sync.open("memory://") as store:
        agent(MemorandaSessionRepository(store.scoped(user_id="ada")))("My flat is in Oslo.")
        assert len(agent(MemorandaSessionRepository(store.scoped(user_id="ada"))).messages) == 2


@pytest.mark.parametrize("manager", [NullConversationManager, SummarizingConversationManager])
async def test_any_agent_goes_on_with_what_another_framework_wrote(store: Store, manager: Any) -> None:
    calls = [{"id": name, "name": "look", "arguments": {"side": name}} for name in ("c1", "c2")]
    await store.add_many(
        [
            SystemMemory(content="Be brief.", metadata=CHAT),
            HumanMemory(content="What is this?", name="ada", metadata=CHAT),
            AIMemory(content="Let me look.", tool_calls=calls, metadata=CHAT),
            ToolMemory(content="a cat", tool_call_id="c1", tool_name="look", metadata=CHAT),
            ToolMemory(content="too dark", tool_call_id="c2", tool_name="look", is_error=True, metadata=CHAT),
            AIMemory(content="A cat.", metadata=CHAT),
        ]
    )
    repository = MemorandaSessionRepository(store.scoped(user_id="ada"))

    going_on = agent(repository, conversation_manager=manager())
    await going_on.invoke_async("And now?")

    assert isinstance(going_on.model, Parrot)
    sent = going_on.model.requests[0]
    assert kinds(sent) == [
        "user: text",
        "assistant: text toolUse toolUse",
        "user: toolResult toolResult",
        "assistant: text",
        "user: text",
    ]
    assert [block["toolResult"]["status"] for block in sent[2]["content"]] == ["success", "error"]
    found = repository.list_messages("chat", "helper")
    assert [each.message_id for each in found] == [0, 1, 2, 3, 4, 5]
    assert [loss.what for loss in repository.dropped] == ["the system item", "name"]
    assert len(agent(repository, conversation_manager=manager()).messages) == 6


async def test_others_read_what_strands_wrote(store: Store, repository: MemorandaSessionRepository) -> None:
    filled(repository)

    items = await store.search(metadata=CHAT, order="added", limit=99, mode="substring")
    items.reverse()

    assert [(item.memory_type, item.content) for item in items] == [
        ("human", "What is this?"),
        ("ai", "Let me look."),
        ("tool", "a cat"),
        ("tool", '{"why": "too dark"}'),
        ("ai", "A cat."),
    ]
    assert {item.metadata.agent_id for item in items} == {"helper"}
    (image,), (thought,) = parts_of(items[0]), parts_of(items[1])
    assert (image.kind, image.media_type) == ("image", "image/png")
    assert (thought.kind, thought.text, thought.signature) == ("reasoning", "I should look twice.", "signed")
    assert [message["role"] for message in to_openai(items)] == ["user", "assistant", "tool", "tool", "assistant"]


def test_parts_that_strands_has_a_place_for_are_carried_over() -> None:
    items = SessionMessageFormat().items([SessionMessage.from_message(each, 0) for each in conversation()])
    losses: list[Any] = []

    class Other(SessionMessageFormat):
        name = "another framework that writes the same messages"

    written = [each.message for each in Other().messages(items, dropped=losses)]

    assert written[0]["content"] == conversation()[0]["content"]
    assert written[0]["content"][1]["image"]["source"]["bytes"] == IMAGE
    assert kinds(written)[1:] == ["assistant: text toolUse toolUse", "user: toolResult toolResult", "assistant: text"]
    assert [loss.what for loss in losses] == ["reasoning"]


def test_unknown_blocks_come_back_equal() -> None:
    given: list[Any] = [
        {"role": "user", "content": [{"guardContent": {"text": {"text": "x"}}}, {"cachePoint": {"type": "default"}}]},
        {"role": "user", "content": [{"document": {"format": "pdf", "name": "a", "source": {"bytes": b"%PDF"}}}]},
        {"role": "assistant", "content": [{"reasoningContent": {"redactedContent": b"\xff"}}, {"new": {"block": 1}}]},
        {"role": "assistant", "content": [], "metadata": {"custom": {"a": None}}},
        {"role": "user", "content": [{"text": "nul \0 and \ud800"}]},
    ]
    messages = [SessionMessage.from_message(each, number) for number, each in enumerate(given)]

    items = SessionMessageFormat().items(messages)

    assert SessionMessageFormat().messages(items) == messages
    assert items[0].provider_parts == ["guardContent"]
    assert [part.media_type for part in parts_of(items[1])] == ["application/pdf"]


async def test_groups_of_agents_have_a_state(repository: MemorandaSessionRepository) -> None:
    class Group:
        id = "group"
        state = {"nodes": ["a"], "raw": b"\xff"}  # noqa: RUF012 - changed below on purpose

        def serialize_state(self) -> dict[str, Any]:
            return dict(self.state)

    group: Any = Group()
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_multi_agent("chat", group)
    repository.create_session(Session("chat", SessionType.AGENT))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_multi_agent("chat", group)
    repository.create_multi_agent("chat", group)
    group.state["nodes"] = ["a", "b"]
    repository.update_multi_agent("chat", group)

    assert repository.read_multi_agent("chat", "group") == {"nodes": ["a", "b"], "raw": b"\xff"}
    assert repository.read_multi_agent("chat", "none") is None


def test_forgetting_a_user_leaves_no_session() -> None:
    store = InMemoryStore()
    repository = MemorandaSessionRepository(store.scoped(user_id="ada"))
    filled(repository)
    memoranda.sync.run(store.purge(metadata=MemoryMetadata(user_id="ada")))
    assert repository.read_session("chat") is None
    assert repository.read_agent("chat", "helper") is None
    assert repository.list_messages("chat", "helper") == []
