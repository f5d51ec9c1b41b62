"""Who may see a page: whoever has the token that the terminal shows, from a page of this server, on this machine.

The server listens on the loopback address alone. That keeps other machines out, but neither other users of this one,
nor the pages of other sites that are open in the same browser. So:

- a request must name this server as its host, or a foreign name that was pointed at 127.0.0.1 would reach it;
- what comes from another site's page is refused, and what changes something must come from a page of ours;
- the token of the URL opens the door once, and becomes a cookie that scripts cannot read and other sites never send.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
"""What every answer carries: nothing is kept by the browser, framed, guessed or run but what this server sent."""

# The page leads on by itself: a redirect would count as part of the way from wherever the link was followed, and a
# strict cookie is not sent on that way.
_WELCOME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>memoranda</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url=/"></head>
<body><p><a href="/">Go on to the inspector.</a></p></body></html>"""


class Gate:
    """Lets requests through to the application that come from where they should; all others are told why not."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app = app
        self._token: str | None = token
        self._session = secrets.token_urlsafe(32)
        # Browsers do not tell cookies apart by port, and two inspectors may run at once.
        self._cookie = f"memoranda_inspector_{port}"
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self._answer(scope)(scope, receive, _with_headers(send))

    def _answer(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return _refused("This server answers on the loopback address alone, under its own name.", 421)
        entering = scope["path"] == ENTRANCE and scope["method"] == "GET"
        if not entering and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _refused("Pages of other sites get nothing here.", 403)
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin", "").lower() not in self._origins:
            return _refused("Only a page of the inspector itself may change something.", 403)
        if entering:
            return self._entered(scope)
        if not secrets.compare_digest(self._shown_by(headers).encode(), self._session.encode()):
            return _refused("Open the address that the terminal showed. It works once; start anew for another.", 403)
        return self._app

    def _entered(self, scope: Scope) -> ASGIApp:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if self._token is None or not secrets.compare_digest(given.encode(), self._token.encode()):
            return _refused("This address was used already, or never was one. Start the inspector anew.", 403)
        self._token = None
        answer = HTMLResponse(_WELCOME)
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _shown_by(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found is not None else ""


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
