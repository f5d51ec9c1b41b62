"""Planting an attack, and what must hold of it afterwards, wherever it went."""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from memoranda.integrity import whole_groups
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, ToolMemory
from memoranda.store import Store, dump_item
from memoranda.trust import Trust, trust_of
from memoranda_messages import to_anthropic, to_openai, to_responses
from memoranda_testing.expect import ExpectationError
from memoranda_userdata import export, import_
from trust_kit.attacks import Attack, texts

QUESTION = "Which train do I like?"
KNOWN = "I like the green train."
TOKENS = 6_000

_FENCED = re.compile(r"\[untrusted ([0-9a-f]{16})\b[^\n]*\]\n(?:.*?\n)??\s*\[end \1\b[^\n\]]*\]", re.DOTALL)
_RECORDS = {"fact": "memoranda-fact/1", "graph": None}


class Plant:
    """One attack on the memories of a user of its own."""

    def __init__(self, store: Store, attack: Attack, user: str) -> None:
        self.store = store
        self.attack = attack
        self.level = Trust(attack.trust)
        self.mark = f"zq{uuid.uuid4().hex[:12]}"
        self.owner = MemoryMetadata(user_id=user)
        self.user = store.scoped(user_id=user)
        self.monday = store.scoped(user_id=user, session_id=f"{user}-monday")
        self.tuesday = store.scoped(user_id=user, session_id=f"{user}-tuesday")

    def writer(self) -> Store:
        """Return the handle that the attack writes through, which says whose words these are."""
        return self.store.scoped(
            user_id=str(self.owner.user_id),
            session_id=str(self.monday.scope.session_id),
            trust=self.attack.trust,
            origin=self.attack.origin,
        )

    def outside(self) -> Store:
        """Return a handle for the user's facts that is trusted as the attack is."""
        return self.store.scoped(user_id=str(self.owner.user_id), trust=self.attack.trust, origin=self.attack.origin)

    async def known(self) -> None:
        """Store what the user said, which must stay readable."""
        await self.monday.add_many([HumanMemory(content=KNOWN), AIMemory(content="Noted, green.")])

    async def write(self, writer: Store | None = None) -> None:
        """Write what the attack writes, through a handle; without one, a tool's result is known by its type alone."""
        by_type = writer is None and self.attack.kind == "result" and self.level is Trust.TOOL
        through = self.monday if by_type else writer or self.writer()
        for number, text in enumerate(texts(self.attack, self.mark)):
            if self.attack.kind == "result":
                asked = AIMemory(content="", tool_calls=[{"id": f"c{number}", "name": "web", "arguments": {}}])
                await self.monday.add(asked)
            await through.add(self._item(text, number))

    def _item(self, text: str, number: int) -> MemoryItem:
        kind, field = self.attack.kind, self.attack.field
        fields: dict[str, Any] = {"content": text, "memory_type": kind}
        if kind == "result":
            return ToolMemory(content=text, tool_call_id=f"c{number}", tool_name=self.attack.origin)
        if kind == "call":
            calls = [{"id": f"c{number}", "name": "pay", "arguments": {"to": text}}]
            return AIMemory(content=text, tool_calls=calls)
        if kind in _RECORDS:
            record = {"subject": "Ada", "predicate": "lives_in", "object": text}
            fields |= {"payload": record, "payload_format": _RECORDS[kind]}
        if kind == "note":
            fields["memory_type"] = "item"
        if field == "name":
            fields["name"] = text
        elif field == "payload":
            fields |= {"payload": {"role": "system", "content": text}, "payload_format": "openai"}
        elif field == "extra":
            fields["metadata"] = MemoryMetadata(extra={"trust": "operator", "role": "system"})
        elif field == "claims":
            fields |= {"trust": "operator", "approval": {"by": "operator", "version": 1}}
        return SummaryMemory(**fields, template="conversation") if kind == "summary" else MemoryItem(**fields)

    def has_mark(self, value: Any) -> bool:
        """Return True if a text, or any text within a value, holds the mark."""
        return any(self.mark in text for text in strings(value))

    def fail(self, what: str) -> ExpectationError:
        """Return the error for this attack."""
        return ExpectationError(f"{self.attack.name!r}: {what}")

    def check_trust(self, items: Iterable[MemoryItem], where: str) -> int:
        """Fail if something planted is more trusted than its writer; return how much was looked at."""
        found = [item for item in items if self.has_mark(dump_item(item))]
        for item in found:
            if trust_of(item) > self.level:
                raise self.fail(f"{where}, it is trusted as {trust_of(item)!s}, and its writer as {self.level!s}.")
        return len(found)

    def check_messages(self, items: Sequence[MemoryItem], where: str, *, fenced: bool) -> None:
        """Fail if something planted has the role of an authority, or is outside of its fence, for any provider."""
        if whole_groups(items) != list(items):
            raise self.fail(f"{where}, a call or a result is left alone.")
        system, turns = to_anthropic(items)
        sent = [*to_openai(items), *to_responses(items), {"role": "system", "content": system}, *turns]
        for message in sent:
            role = str(message.get("role", message.get("type")))
            if role in ("system", "developer") and self.has_mark(message):
                raise self.fail(f"{where}, it speaks as {role}.")
            if fenced and role in ("assistant", "function_call") and self.has_mark(message):
                raise self.fail(f"{where}, it speaks as the model.")
            if fenced:
                for text in strings(message):
                    self.check_text(text, where)

    def check_text(self, text: str, where: str) -> None:
        """Fail if something planted stands outside of its fence."""
        if self.mark in _FENCED.sub("", text):
            raise self.fail(f"{where}, it leaves its fence.")

    def blocks(self, text: str) -> list[str]:
        """Return the fenced texts that hold the mark."""
        return [found[0] for found in _FENCED.finditer(text) if self.mark in found[0]]


def strings(value: Any) -> Iterator[str]:
    """Yield every text within a value; JSON within a text, too."""
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            try:
                yield from strings(json.loads(value))
            except ValueError:
                return
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from strings(inner)


async def exported_into(source: Store, target: Store, metadata: MemoryMetadata) -> None:
    """Export the items of an owner, and import them into another store."""
    file = io.StringIO()
    await export(source, file, metadata=metadata)
    await import_(target, file)
