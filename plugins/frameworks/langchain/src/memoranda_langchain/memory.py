"""LangChain's messages as items and back, its chat message history, sync and async, and a retriever, in any store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from memoranda.items import MemoryItem
from memoranda.speakers import type_of_role
from memoranda.store import Capability, Store
from memoranda.sync import SyncStore
from memoranda_messages.parts import PART_READERS
from memoranda_messages.sessions import (
    Dropped,
    Fields,
    JsonObject,
    MessageFormat,
    Outgoing,
    Part,
    Result,
    SessionOptions,
    Sessions,
    awaitable_store,
    blocking,
    settled,
)

_TYPES = {"human": "human", "ai": "ai", "system": "system", "tool": "tool", "function": "tool", "chat": "chat"}
_CALLS = frozenset({"tool_call", "tool_use", "function_call", "invalid_tool_call"})
_OLD_CALLS = frozenset({"tool_calls", "function_call"})
_TEXTS = frozenset({"text", "output_text"})
_MEDIA = frozenset({"image", "audio", "video", "file", "text-plain", "media"})
_FOREIGN = {"image_url": "openai", "input_audio": "openai", "document": "anthropic", "thinking": "anthropic"}
_FOREIGN |= {"redacted_thinking": "anthropic", "input_image": "responses", "input_file": "responses"}


class LangChainFormat(MessageFormat[BaseMessage]):
    """The messages of ``langchain_core.messages``, chunks and classes of your own among them."""

    name = "langchain"
    holds = frozenset({"name", "is_error"})

    def dump(self, message: BaseMessage) -> JsonObject:
        """Return LangChain's own form of a message: its type and its fields."""
        return message_to_dict(message)

    def load(self, given: JsonObject) -> BaseMessage:
        """Return the message. One of an unknown type gets its class if that is imported, else the base class."""
        try:
            return messages_from_dict([given])[0]
        except ValueError:
            return _class_of(given["type"])(**given["data"])

    def read(self, given: JsonObject) -> list[Fields]:
        """Return the fields of a message; an unknown type has none."""
        kind, data = _TYPES.get(given["type"].removesuffix("MessageChunk").lower()), given["data"]
        if kind is None:
            return []
        content = data["content"]
        fields: Fields = {"memory_type": kind, "content": _text(content), "name": data.get("name") or None}
        if kind == "chat":
            spoken = type_of_role(data["role"])
            fields["memory_type"] = spoken if spoken in ("ai", "system") else "human"
            if spoken in (None, "tool"):
                fields["name"] = fields["name"] or data["role"] or None
        elif kind == "tool":
            name = fields.pop("name") or ""
            fields |= {"tool_call_id": data.get("tool_call_id") or _id_by_name(name), "tool_name": name}
            fields["is_error"] = data.get("status") == "error"
        calls = _calls(data)
        parts, unknown = _beside_text(data, {call["id"]: call["name"] for call in calls})
        return [fields | {"tool_calls": calls, "parts": parts, "provider_parts": sorted(unknown)}]

    def roles(self, given: JsonObject) -> list[str]:
        """Return the type of a message, and the role that a chat message gives itself."""
        kind, data = given["type"].removesuffix("MessageChunk"), given["data"]
        return [role for role in (None if kind == "chat" else kind, data.get("type"), data.get("role")) if role]

    def write(self, outgoing: Outgoing) -> BaseMessage:
        """Return a message. Images, audio and files go along with a person's message or a result, not with others."""
        if outgoing.role == "tool":
            (result,) = outgoing.results
            return ToolMessage(
                content=_content(result.text, result),
                tool_call_id=result.call_id,
                name=result.name or None,
                status="error" if result.is_error else "success",
            )
        name = outgoing.legal_name()
        if outgoing.role == "system":
            return SystemMessage(content=outgoing.text, name=name)
        if outgoing.role == "ai":
            calls: Any = [{"name": call.name, "args": call.values, "id": call.id} for call in outgoing.calls]
            return AIMessage(content=outgoing.text, tool_calls=calls, name=name)
        return HumanMessage(content=_content(outgoing.text, outgoing), name=name)


def _class_of(kind: str) -> type[BaseMessage]:
    """Return the class of messages of a type, the base class if there is none."""
    classes = [BaseMessage]
    for one in classes:  # It grows while it is read.
        if one.model_fields["type"].default == kind:
            return one
        classes += one.__subclasses__()
    return BaseMessage


def _text(content: Any) -> str:
    """Return what a message says, as its ``text`` does: texts follow each other without a break."""
    if isinstance(content, str):
        return content
    texts = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    return "".join(block.get("text") or "" for block in texts if block.get("type") in _TEXTS)


def _id_by_name(name: str) -> str:
    """Return an id for a call of the oldest form, which has none: a function message names what it answers."""
    return f"function_call_{name}" if name else ""


def _calls(data: Mapping[str, Any]) -> list[JsonObject]:
    """Return the calls of a message, those among them whose arguments are no JSON."""
    found = [
        {"id": call.get("id") or f"call_{position}", "name": call.get("name") or "", "arguments": call.get("args")}
        for position, call in enumerate([*(data.get("tool_calls") or ()), *(data.get("invalid_tool_calls") or ())])
    ]
    old = (data.get("additional_kwargs") or {}).get("function_call")
    if old and not found:
        found = [{"id": _id_by_name(old["name"]), "name": old["name"], "arguments": old.get("arguments")}]
    return [call | {"arguments": {} if call["arguments"] is None else call["arguments"]} for call in found]


def _beside_text(data: Mapping[str, Any], calls: Mapping[str, str]) -> tuple[list[Part], set[str]]:
    """Return the parts of a message, and the names of what else it brings to a model.

    ``calls`` are the names of the tools that it calls, by the ids of the calls.
    """
    beside = {key: value for key, value in (data.get("additional_kwargs") or {}).items() if value}
    provider = (data.get("response_metadata") or {}).get("model_provider")
    thought = beside.pop("reasoning_content", None)
    parts = [Part("reasoning", text=thought, provider=provider)] if thought else []
    unknown = beside.keys() - (_OLD_CALLS if calls else set())
    for block in data["content"] if isinstance(data["content"], list) else ():
        kind = str(block.get("type")) if isinstance(block, dict) else "text"
        if kind in _TEXTS or (kind in _CALLS and _is_one_of(calls, block)):
            continue
        found = list(_parts(block, kind, provider))
        parts += found
        if not found:
            unknown.add(kind)
    return parts, unknown


def _is_one_of(calls: Mapping[str, str], block: JsonObject) -> bool:
    """Return True if a block repeats a call, as some providers have it among their content."""
    names = [calls[str(name)] for name in (block.get("call_id"), block.get("id")) if name in calls]
    return bool(names) and block.get("name") in (None, *names)


def _parts(block: JsonObject, kind: str, provider: str | None) -> Iterator[Part]:
    """Yield the part that a block is, in LangChain's forms of all times and in providers' own."""
    if kind in _MEDIA and not isinstance(block.get(kind), dict) and not isinstance(block.get("source"), dict):
        part = _media(block)
        if part.as_url is not None or part.text is not None:  # Not if it only names a provider's file.
            yield part
    elif kind == "reasoning" and "reasoning" in block:
        signature = (block.get("extras") or block).get("signature")
        yield Part("reasoning", text=block["reasoning"], signature=signature, provider=provider)
    elif kind == "reasoning":
        yield from PART_READERS["responses"](block)
    else:
        reader = "anthropic" if "source" in block else _FOREIGN.get(kind, "openai")
        yield from PART_READERS[reader]({"content": [block]})


def _media(block: JsonObject) -> Part:
    """Return the part of a block of LangChain's own form."""
    kind: Any = block["type"]
    media_type = block.get("mime_type") or ""
    if kind == "media":
        kind = Part.of_media(media_type).kind
    text = block.get("text") if kind == "text-plain" or block.get("source_type") == "text" else None
    name = (block.get("extras") or block.get("metadata") or block).get("filename") or block.get("title")
    kind = "file" if kind == "text-plain" else kind
    if block.get("url"):
        return Part.from_url(kind, block["url"], name=name, media_type=media_type)
    return Part(kind, media_type=media_type, data=block.get("base64") or block.get("data"), name=name, text=text)


def _block(part: Part) -> JsonObject | None:
    """Return an image, a recording or a file as LangChain's block."""
    if part.as_url is None:
        return None
    held = {"url": part.url} if part.data is None else {"base64": part.data}
    typed = {"mime_type": part.media_type} if part.media_type else {}
    named = {"extras": {"filename": part.name}} if part.name else {}
    return {"type": part.kind, **held, **typed, **named}


def _content(text: str, holder: Outgoing | Result) -> Any:
    blocks = holder.media(_block, lambda said: {"type": "text", "text": said})
    if not blocks:
        return text
    return [{"type": "text", "text": text}, *blocks] if text else blocks


FORMAT = LangChainFormat()


class MemorandaChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session: ``MemorandaChatMessageHistory("chat-1", store.scoped(user_id="ada"))``.

    - ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. Bind it to a user, since a session id
      does not say whose it is. The history never closes it.
    - ``limit`` is the most messages that are read, the newest ones. A call that it would cut from its results is left
      out, and so are these.
    - Calls without all their results are left out, and so are results without their call: what a cancelled run left
      behind is no part of the next request. With ``whole=False``, the turn that is under way is read as it is, for a
      program that reads the open calls and goes on with their results.
    - ``ttl``, ``min_trust``, ``fence`` and ``receipt`` are those of :class:`memoranda_messages.sessions.Conversation`.

    The sync methods can be called from any thread, but not inside a running event loop, which they would block.
    """

    def __init__(
        self,
        session_id: str,
        store: Store | SyncStore,
        *,
        limit: int | None = None,
        whole: bool = True,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__()
        self.session_id = session_id
        self._limit = limit
        self._whole = whole
        self._sessions = Sessions(store, **options)

    @property
    def dropped(self) -> list[Dropped]:
        """What the last read could not carry over from messages of other frameworks."""
        return self._sessions.dropped

    def __repr__(self) -> str:
        return f"MemorandaChatMessageHistory({self.session_id!r}, {self._sessions.store!r})"

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # writable there, but never written
        """The conversation, oldest first."""
        return blocking("messages", self.aget_messages, instead="aget_messages")

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, all or none."""
        blocking("add_messages", lambda: self.aadd_messages(messages))

    def clear(self) -> None:
        """Remove every message, for good if the store can."""
        blocking("clear", self.aclear)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the conversation, oldest first."""
        conversation = self._sessions.view(self.session_id)
        if self._whole:
            items = await conversation.shown(self._limit)
        elif self._limit is None:
            items = settled(await conversation.read())
        else:
            items = settled(await conversation.uncut(self._limit))
        await conversation.record(items, self._limit)
        return [message for message, _ in self._sessions.messages(FORMAT, items)]

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages, all or none. If it raises, even for a cancellation, the write has finished or failed."""
        await self._sessions.stored(self.session_id).append(FORMAT.items(messages))

    async def aclear(self) -> None:
        """Remove every message, for good if the store can."""
        await self._sessions.stored(self.session_id).clear()


class MemorandaRetriever(BaseRetriever):
    """Finds memories by ranked search: ``MemorandaRetriever(store=store.scoped(user_id="ada"), k=4)``.

    - ``store`` is any open store or handle, async or of :mod:`memoranda.sync`. A handle finds what lies in its scope.
    - ``k`` is the most documents to return; ``invoke(query, k=…)`` overrides it.
    - ``mode`` is ``"text"``, ``"semantic"`` or ``"hybrid"``; without one it is hybrid if the store has an embedder,
      else text. ``min_score`` (0 to 1), ``memory_type`` and ``where`` are those of ``search_ranked``.

    A document's id is the item's. Its metadata has the item's ``score``, ``memory_type``, ``created_at``, ``name`` and
    ids, without those that are missing, and ``extra``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    store: Store | SyncStore
    k: int = 4
    mode: Literal["text", "semantic", "hybrid"] | None = None
    min_score: float = 0.0
    memory_type: str | list[str] | None = None
    where: Mapping[str, Any] | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return blocking("invoke", lambda: self._found(query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._found(query, k)

    async def _found(self, query: str, k: int | None) -> list[Document]:
        store = awaitable_store(self.store)
        mode = self.mode or ("hybrid" if Capability.HYBRID in store.capabilities else "text")
        ranked = await store.search_ranked(
            query=query,
            limit=self.k if k is None else k,
            mode=mode,
            memory_type=self.memory_type,
            where=self.where,
            min_score=self.min_score,
        )
        return [_document(found.item, found.score) for found in ranked]


def _document(item: MemoryItem, score: float) -> Document:
    owner = item.metadata.model_dump(exclude_defaults=True)
    said = {"memory_type": item.memory_type, "created_at": item.created_at, "name": item.name}
    known = {key: value for key, value in (owner | said).items() if value is not None}
    return Document(id=item.id, page_content=item.content, metadata={"score": score, **known})
