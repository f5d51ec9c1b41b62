"""The owners and items that pages are about, rendering pages from templates, and reading forms.

Addresses name owners and items by keys that reveal nothing, since an address may end up in a history or a log. Keys
also avoid what addresses and forms cannot carry: a browser removes ``..`` from a path, a server takes an escaped ``/``
for a plain one, and a form changes line breaks.

Stored text is shown with every character seen as what it is, and none of them acting. What a form sends never appears
in an address.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import re
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from memoranda.errors import InputError
from memoranda.integrity import answers, call_ids
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Capability, ScopedStore, Store
from memoranda.store import Owner as StoreOwner
from memoranda.store.owners import is_reserved
from memoranda.tool_calls import call_arguments, call_name
from memoranda_commands.terminal import counted, sign_of, visible, visible_json


async def newest_sessions(store: Store, within: MemoryMetadata | None) -> list[StoreOwner]:
    """Return the sessions of an owner, or of all owners, the one that something was last said in first.

    A store lists them by their names, so all of them are looked at.
    """
    found = [session async for session in store.owners("session_id", within=within)]
    return sorted(found, key=lambda session: (session.last, session.value), reverse=True)


_LABELS = {"user_id": "user", "session_id": "session", "task_id": "task", "agent_id": "agent"}


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner that was chosen. Without metadata it stands for all owners together, which has a page of its own."""

    address: str
    metadata: MemoryMetadata | None
    _secret: bytes = field(repr=False)
    _items: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The key by which addresses and forms name the owner."""
        return self.address.rstrip("/").rpartition("/")[2]

    def item_key(self, item_id: str) -> str:
        """Return the key of an item, by which addresses and forms name it from now on."""
        key = _key(self._secret, item_id)
        self._items[key] = item_id
        return key

    def item_id(self, key: str) -> str:
        """Return the id of the item that a key names. Raises InputError for a key that was not given out."""
        if key not in self._items:
            raise InputError("There is no such item here, or this page is from an earlier run.", field="item")
        return self._items[key]

    @property
    def names(self) -> list[tuple[str, str]]:
        """What kind of owner it is, and which, from the broadest to the narrowest."""
        if self.metadata is None:
            return []
        given = ((_LABELS[name], getattr(self.metadata, name)) for name in SCOPE_FIELDS)
        return [(label, value) for label, value in given if value is not None]

    @property
    def has_facts(self) -> bool:
        """True for a user, an agent or both: facts belong to them, and not to one of their conversations."""
        kinds = {kind for kind, _ in self.names}
        return bool(kinds) and kinds <= {"user", "agent"}

    @property
    def user(self) -> str | None:
        """The user, if it is a user and nothing narrower."""
        names = self.names
        return names[0][1] if len(names) == 1 and names[0][0] == "user" else None


class Owners:
    """The owners that were listed, by the keys in their addresses. Made anew with every start.

    ``root`` is the first part of every address.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._secret = secrets.token_bytes(32)
        self._known: dict[str, Owner] = {}

    def named(self, metadata: MemoryMetadata | None) -> Owner:
        """Return the owner of this metadata, from now on known by its key."""
        fields = None if metadata is None else [getattr(metadata, name) for name in SCOPE_FIELDS]
        key = _key(self._secret, json.dumps(fields))
        return self._known.setdefault(key, Owner(f"{self._root}/o/{key}/", metadata, self._secret))

    def narrowed(self, owner: Owner, session: str) -> Owner:
        """Return one session of an owner, or of all owners together."""
        return self.named((owner.metadata or MemoryMetadata()).model_copy(update={"session_id": session}))

    def chosen(self, request: Request) -> Owner:
        """Return the owner that the address of a request names.

        Raises InputError for one that was not listed since the start.
        """
        return self.listed(request.path_params["key"])

    def listed(self, key: str) -> Owner:
        """Return the owner of a key. Raises InputError for one that was not listed since the start."""
        owner = self._known.get(key)
        if owner is None:
            raise InputError("This address is from an earlier run; choose an owner again.", field="owner")
        return owner


def handle_of(store: Store, scope: Mapping[str, Any]) -> Store:
    """Return a handle of an owner, which may be a space: whoever inspects a store has all of it."""
    if is_reserved(scope.get("user_id", "")):
        return ScopedStore(store, MemoryMetadata(**scope))
    return store.scoped(**scope)


def _key(secret: bytes, text: str) -> str:
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:32]


_LARGEST_FORM = 1_000_000
_BLANKS = re.compile(r"^\s|\s\Z|(?<=\s)\s|[^\S ]")
_ROLES = {"human": "user", "ai": "assistant"}

SHOWN = 2_000
"""How much of an item is shown in a list; its own page shows more."""

SHOWN_ALONE = 100_000
"""How much of an item is shown on a page of its own; the whole is a download."""


def shown_name(text: str, length: int = 120) -> str:
    """Return the beginning of a name or an id as one line that also shows every blank but single spaces in it."""
    line = visible(_BLANKS.sub(lambda found: sign_of(ord(found[0])), text[: length + 1]))
    return (line if len(line) <= length else line[: length - 1] + "…") or "\u27e8empty\u27e9"


def speaker_of(item: MemoryItem) -> tuple[str, str]:
    """Return the name of the speaker, empty without one, and the role. Show both: a name may be that of a role."""
    name = str(getattr(item, "tool_name", "") or item.name or "")
    return shown_name(name) if name else "", shown_name(_ROLES.get(item.memory_type, item.memory_type))


def shortened(text: str, length: int = SHOWN) -> tuple[str, int]:
    """Return the beginning of a text, ready to be shown, and how many characters are not."""
    return visible(text[:length]), max(len(text) - length, 0)


def one_line(text: str, length: int = 120) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(visible(text[: 4 * length]).split())
    return line if len(line) <= length and len(text) <= 4 * length else line[: length - 1] + "…"


def json_text(value: Any) -> str:
    """Return a value as JSON to be read and copied: exact, with escapes for what could not be seen."""
    return visible_json(json.dumps(value, ensure_ascii=False, indent=2))


def moment(text: str) -> str:
    """Return a time as people read it, in UTC."""
    return text[:19].replace("T", " ")


@functools.cache
def environment() -> Environment:
    """Return the templates. Everything that is put into one is escaped."""
    made = Environment(
        loader=PackageLoader("memoranda_inspector"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "visible": visible,
        "line": one_line,
        "name": shown_name,
        "json": json_text,
        "moment": moment,
    }
    made.globals |= {"count_of": counted, "shortened": shortened, "speaker_of": speaker_of}
    return made


def prepare() -> None:
    """Read every template now, so that the first page comes as fast as the next."""
    for name in environment().list_templates():
        environment().get_template(name)


def rendered(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(environment().get_template(template).render(values), status_code=status)


class Pages:
    """Pages about one store. ``shared`` are the values that every page has."""

    def __init__(self, store: Store, owners: Owners, shared: Mapping[str, Any]) -> None:
        self._store = store
        self._owners = owners
        self._shared = shared

    def _page(self, template: str, owner: Owner | None = None, **values: Any) -> HTMLResponse:
        return rendered(template, {**self._shared, "owner": owner, **values})


def in_page(request: Request) -> bool:
    """Return True if a page asks for a part of itself."""
    return request.headers.get("hx-request") == "true"


async def form_of(request: Request) -> dict[str, str]:
    """Return what a form sent. Raises InputError for one that is too large, or not a form."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            raise InputError("A form of more than a million bytes is not a form of this page.", field="form")
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError as error:
        raise InputError("The form cannot be read.", field="form") from error


def number_of(form: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return a whole number of a form, within its bounds. Raises InputError for anything else."""
    given = form.get(name, "").strip()
    try:
        return min(max(int(given), 0), most) if given else default
    except ValueError:
        raise InputError(f"{name} is a whole number.", field=name) from None


def decimal_of(form: Mapping[str, str], name: str, default: float, most: float) -> float:
    """Return a number of a form, within its bounds. Raises InputError for anything else."""
    given = form.get(name, "").strip()
    try:
        found = float(given) if given else default
    except ValueError:
        raise InputError(f"{name} is a number.", field=name) from None
    return min(max(found, 0.0), most) if found == found else default


RECORDS = ("branch", "fact", "fact-mark", "quarantined", "receipt", "revision")
"""Types of what a store keeps beside what was said. Facts, receipts and the quarantine have pages of their own."""

PAGE = 50
"""How many items a page shows."""

REACH = 100
"""How far from each other a call and its result may lie and still be joined on one page."""


@dataclass(slots=True)
class ToolCall:
    """A tool call and its results; a call without any is unanswered."""

    name: str
    arguments: str
    results: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class Entry:
    """An item on the page, with its calls."""

    item: MemoryItem
    calls: list[ToolCall] = field(default_factory=list)
    state: str = ""
    """Empty for what is shown to models; ``archived``, ``deleted`` or ``orphan`` (a result without its call)."""
    receipts: list[Any] = field(default_factory=list)
    """What models were shown after it, before the next one."""

    @property
    def missing(self) -> list[str]:
        """The names of the unanswered calls."""
        return [call.name for call in self.calls if not call.results]


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of a conversation, oldest first."""

    entries: list[Entry]
    offset: int
    older: bool
    mark: str
    """A hash of what the page was made from; it differs once anything has changed."""


async def count_items(store: Store, metadata: MemoryMetadata | None) -> int:
    """Return how many items an owner has, archived ones too, without records."""
    records = await store.count(metadata=metadata, where={"memory_type": {"$in": list(RECORDS)}})
    return await store.count(metadata=metadata) - records


async def read_conversation(
    store: Store,
    metadata: MemoryMetadata | None,
    *,
    offset: int = 0,
    archived: bool = False,
    deleted: bool = False,
) -> ConversationPage:
    """Return the items of an owner, ``offset`` newer ones skipped, in the order in which they were said."""
    newer = min(offset, REACH)
    size = newer + PAGE + REACH
    items = await _newest(store, metadata, size, offset - newer, archived=archived, deleted=deleted)
    end = len(items) - newer
    start = max(end - PAGE, 0)
    there = {item.id for item in await store.get_many([item.id for item in items])} if deleted else None
    entries = _joined(items, start, end, there)
    signs = "\n".join(f"{item.id} {item.version} {item.updated_at} {item.archived_by}" for item in items)
    mark = hashlib.sha256(f"{signs}\n{sorted(there or ())}".encode()).hexdigest()[:16]
    return ConversationPage(entries, offset, start > 0, mark)


async def _newest(
    store: Store, metadata: MemoryMetadata | None, size: int, offset: int, *, archived: bool, deleted: bool
) -> list[MemoryItem]:
    """Return so many of the items that were added last, oldest first."""
    if not archived and not deleted:
        return (await store.search(metadata=metadata, limit=size, offset=offset, order="added", mode="substring"))[::-1]
    # No search returns these, so all items are scanned, only when a page asks for them.
    kept: deque[MemoryItem] = deque(maxlen=size + offset)
    hidden = deleted and Capability.DELETE in store.capabilities
    wanted: Any = None if archived else False
    async for item in store.scan(metadata=metadata, archived=wanted, include_deleted=hidden, order="added"):
        if item.memory_type not in RECORDS:
            kept.append(item)
    found = list(kept)
    return found[: len(found) - offset] if offset else found


def _joined(items: Sequence[MemoryItem], start: int, end: int, there: set[str] | None) -> list[Entry]:
    """Return the entries from ``start`` to ``end``, each result below the call that it answers."""
    entries = [Entry(item, _calls(item), _state(item, there)) for item in items]
    links = answers(items)
    for link in links:
        calls = entries[link.caller].calls
        position = next(
            (at for at, call_id in enumerate(call_ids(items[link.caller])) if call_id == link.call_id), None
        )
        if position is not None:
            calls[position].results.append(entries[link.result])
    below = {link.result for link in links}
    shown = []
    for position in range(start, end):
        if position in below:
            continue
        entry = entries[position]
        if entry.item.memory_type == "tool" and not entry.state:
            entry.state = "orphan"
        shown.append(entry)
    return shown


def _calls(item: MemoryItem) -> list[ToolCall]:
    calls = getattr(item, "tool_calls", None) if item.memory_type == "ai" else None
    if not isinstance(calls, list):
        return []
    return [ToolCall(call_name(call), call_arguments(call)) for call in calls if isinstance(call, dict)]


def _state(item: MemoryItem, there: set[str] | None) -> str:
    if there is not None and item.id not in there:
        return "deleted"
    return "archived" if item.archived_by is not None else ""


def entry_of(item: MemoryItem, state: str = "") -> Entry:
    """Return an item by itself."""
    return Entry(item, _calls(item), state)
