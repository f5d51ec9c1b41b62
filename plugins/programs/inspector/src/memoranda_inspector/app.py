"""The application: which address shows what, and who may see it. It serves one open store, and does not close it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memoranda.errors import MemoryError
from memoranda.store import Store
from memoranda_inspector.actions import ActionPages, Actions
from memoranda_inspector.feature_pages import FactPages, QuarantinePages, ReceiptPages
from memoranda_inspector.pages import Owners, in_page, prepare, rendered
from memoranda_inspector.reading import ContextPages, HealthPages, ReadingPages

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


ENTRANCE = "/enter"

_CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "Cache-Control": "no-store",
    # Not no-referrer: browsers then say `Origin: null` with a form of our own page.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every response: the browser keeps nothing, frames nothing, and runs only what this server sent."""

# The page leads on by itself: a redirect would count as part of the way from wherever the link was followed, and a
# strict cookie is not sent on that way.
_WELCOME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>memoranda</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url={home}"></head>
<body><p><a href="{home}">Go on to the inspector.</a></p></body></html>"""


class Gate:
    """Lets only requests from a page of our own through to the application, and answers all others with the reason.

    ``root`` is the secret first part of every address that the application answers, such as ``/3f8a…``.

    The server listens only on the loopback address. That keeps out other machines, but not other users of this one,
    other programs on its ports, or the pages of other sites that are open in the same browser. So:

    - A request must name this server by its address. Under another name, ``localhost`` included, a browser may reach
      another program on the same port, and send it what belongs here.
    - What comes from another site's page is refused, and what changes something must come from a page of ours.
    - The token of the URL opens the door once. From then on a page needs two secrets. One is the first part of every
      address, which only our own pages know: browsers keep addresses from other origins, and a port is part of an
      origin. The other is a cookie that scripts cannot read and other sites never send, so that an address that was
      seen in a history or copied opens nothing. Cookies know no port: other programs may get this one, and set any
      others.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str, root: str) -> None:
        self._app = app
        self._token: str | None = token
        self._home = f"{root}/"
        self._session = secrets.token_urlsafe(32)
        # Browsers do not tell cookies apart by port, and two inspectors may run at once.
        self._cookie = f"memoranda_inspector_{port}"
        self._host = "127.0.0.1" if port == 80 else f"127.0.0.1:{port}"
        self._origin = f"http://{self._host}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self._answer(scope)(scope, receive, _with_headers(send))

    def _answer(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        if headers.get("host", "") != self._host:
            return _refused(f"This server answers only to {self._host}: write that instead of the name.", 421)
        entering = scope["path"] == ENTRANCE and scope["method"] == "GET"
        if not entering and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refused("Pages of other sites get nothing here.", 403)
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin", "") != self._origin:
            return _refused("Only a page of the inspector itself may change something.", 403)
        if entering:
            return self._entered(scope)
        if not (_same(scope["path"][: len(self._home)], self._home) and self._has_cookie(headers)):
            return _refused("Open the address that the terminal showed. It works once; start anew for another.", 403)
        return self._app

    def _entered(self, scope: Scope) -> ASGIApp:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if self._token is None or not _same(given, self._token):
            return _refused("This address was used already, or never was one. Start the inspector anew.", 403)
        self._token = None
        answer = HTMLResponse(_WELCOME.format(home=self._home))
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path=self._home)
        return answer

    def _has_cookie(self, headers: Headers) -> bool:
        """Return True if our cookie is among those sent; other programs may set one of the same name."""
        sent = (cookie.strip().partition("=") for line in headers.getlist("cookie") for cookie in line.split(";"))
        return any(name == self._cookie and _same(value, self._session) for name, _, value in sent)


def _same(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode(), secret.encode())


def _refused(reason: str, status: int) -> ASGIApp:
    return PlainTextResponse(reason + "\n", status_code=status)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
