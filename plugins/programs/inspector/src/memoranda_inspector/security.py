"""Who may see a page: a person who has the token that the terminal shows, from a page of this server, on this machine.

The server listens only on the loopback address. That keeps out other machines, but not other users of this one, other
programs on its ports, or the pages of other sites that are open in the same browser. So:

- A request must name this server by its address. Under another name, ``localhost`` included, a browser may reach
  another program on the same port, and send it what belongs here.
- What comes from another site's page is refused, and what changes something must come from a page of ours.
- The token of the URL opens the door once. From then on a page needs two secrets. One is the first part of every
  address, which only our own pages know: browsers keep addresses from other origins, and a port is part of an origin.
  The other is a cookie that scripts cannot read and other sites never send, so that an address that was seen in a
  history or copied opens nothing. Cookies know no port: other programs may get this one, and set any others.
"""

from __future__ import annotations

import secrets
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
"""The headers of every response: the browser keeps nothing, frames nothing, and runs only what this server sent."""

# The page leads on by itself: a redirect would count as part of the way from wherever the link was followed, and a
# strict cookie is not sent on that way.
_WELCOME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>memoranda</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url={home}"></head>
<body><p><a href="{home}">Go on to the inspector.</a></p></body></html>"""


class Gate:
    """Lets only requests from a page of our own through to the application, and answers all others with the reason.

    ``root`` is the secret first part of every address that the application answers, such as ``/3f8a…``.
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
