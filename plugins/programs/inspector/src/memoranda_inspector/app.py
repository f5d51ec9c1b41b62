"""The application: which address shows what. It serves one open store, and does not close it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from memoranda.errors import MemoryError
from memoranda.store import Store
from memoranda_inspector.actions import ActionPages, Actions
from memoranda_inspector.context_pages import ContextPages
from memoranda_inspector.fact_pages import FactPages
from memoranda_inspector.health import HealthPages
from memoranda_inspector.pages import in_page, prepare, rendered
from memoranda_inspector.quarantine import QuarantinePages
from memoranda_inspector.reading import ReadingPages
from memoranda_inspector.receipt_pages import ReceiptPages
from memoranda_inspector.scopes import Owners
from memoranda_inspector.security import Gate

logger = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Inspector:
    """What to inspect, and what may be done.

    ``name`` is what the pages call the store. ``summarizer`` is the model that compacting asks, with ``templates``.
    ``soul`` is the file that contexts begin with. With ``read_only`` no page changes anything. ``schema`` says how many
    values facts have, as ``memoranda_facts.Schema``; without it, the rules for everyday English do.
    """

    store: Store
    name: str = ""
    read_only: bool = False
    summarizer: Any = None
    templates: tuple[str, ...] = ("conversation",)
    soul: Path | None = None
    schema: Any = None


def create_app(inspector: Inspector, *, port: int, token: str) -> ASGIApp:
    """Return the application for a server on this port of the loopback address, which this token opens once."""
    prepare()
    root = f"/{secrets.token_hex(32)}"
    has_facts = find_spec("memoranda_facts") is not None
    has_receipts = find_spec("memoranda_receipts") is not None
    shared = {"root": root, "store_name": inspector.name, "read_only": inspector.read_only}
    shared |= {"has_facts": has_facts, "has_receipts": has_receipts}
    owners = Owners(root)
    receipts = ReceiptPages(inspector.store, owners, shared)
    reading = ReadingPages(inspector.store, owners, shared, receipts if has_receipts else None)
    contexts = ContextPages(inspector.store, owners, inspector.soul, shared)
    quarantine = QuarantinePages(inspector.store, owners, shared)
    routes = [
        Route("/", reading.owners, methods=["GET", "POST"]),
        Route("/everybody", reading.everybody, methods=["POST"]),
        Route("/quarantine", quarantine.quarantine),
        Route("/health", HealthPages(inspector.store, owners, shared).health),
        Route("/o/{key}/", reading.conversation),
        Route("/o/{key}/live", reading.live),
        Route("/o/{key}/sessions", reading.sessions),
        Route("/o/{key}/items/{item}", reading.item),
        Route("/o/{key}/items/{item}/text", reading.text),
        Route("/o/{key}/items/{item}/sources", reading.sources),
        Route("/o/{key}/context", contexts.context, methods=["GET", "POST"]),
        Route("/o/{key}/payload", contexts.payload, methods=["POST"]),
        Route("/o/{key}/search", reading.search, methods=["GET", "POST"]),
    ]
    facts = FactPages(inspector.store, owners, inspector.schema, shared)
    if has_facts:
        routes += [Route("/o/{key}/facts", facts.overview), Route("/o/{key}/facts/{item}", facts.slot)]
    if has_receipts:
        routes += [
            Route("/o/{key}/receipts", receipts.overview),
            Route("/o/{key}/receipts/compare", receipts.compare),
            Route("/o/{key}/receipts/{item}", receipts.one),
        ]
    if not inspector.read_only:
        runner = Actions(inspector.store, inspector.name, inspector.summarizer, inspector.templates)
        if has_facts:
            runner.previews["undo-fact"], runner.runs["undo-fact"] = facts.preview_undo, facts.undo
        actions = ActionPages(inspector.store, inspector.name, owners, runner, shared)
        routes += [
            Route("/o/{key}/actions", actions.overview),
            Route("/o/{key}/preview/{action}", actions.preview, methods=["POST"]),
            Route("/o/{key}/do/{action}", actions.run, methods=["POST"]),
            Route("/o/{key}/export", actions.export, methods=["POST"]),
            Route("/receipts/{key}", actions.receipt),
            Route("/quarantine/preview/{decision}", quarantine.preview, methods=["POST"]),
            Route("/quarantine/do/{decision}", quarantine.decide, methods=["POST"]),
        ]
    guarded = [Route(route.path, _guarded(route.endpoint, root), methods=list(route.methods or ())) for route in routes]
    static = Mount("/static", StaticFiles(packages=[("memoranda_inspector", "static")]))
    return Gate(Starlette(routes=[Mount(root, routes=[*guarded, static])]), port=port, token=token, root=root)


def _guarded(handler: Handler, root: str) -> Handler:
    """Turn errors into a sentence on a page. Of an unexpected error only the type is shown and logged."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except MemoryError as error:
            sentence, status = str(error), 400
        except Exception as error:  # noqa: BLE001  # its message may quote what is stored
            logger.error("A page failed with %s.", type(error).__name__)
            sentence, status = f"The page failed with {type(error).__name__}.", 500
        values = {"root": root, "store_name": "", "read_only": True, "owner": None, "sentence": sentence}
        # htmx shows only successful responses, and the sentence must be shown.
        partial = in_page(request)
        return rendered("_error.html" if partial else "error.html", values, 200 if partial else status)

    return answer
