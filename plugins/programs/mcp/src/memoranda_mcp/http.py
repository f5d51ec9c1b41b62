"""Serving over streamable HTTP, only on this machine and only to users who have a token."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from pydantic import AnyHttpUrl

from memoranda.errors import InputError
from memoranda_mcp.resources import RequestContext
from memoranda_mcp.server import make_memory, make_server, opened, rights_of
from memoranda_mcp.settings import Settings

if TYPE_CHECKING:
    from memoranda.store import Store
    from memoranda_mcp.memory import ScopedMemory
    from memoranda_summary import Summarizer

logger = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MIN_TOKEN = 16
MAX_BODY = 4 * 1024 * 1024


class Tokens:
    """The tokens of the users."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """Take the tokens by user. Raises InputError for tokens that protect nothing."""
        if not users:
            raise InputError("A server on HTTP needs at least one token.", field="tokens")
        for token in users.values():
            if not isinstance(token, str) or len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
                raise InputError(f"A token has at least {MIN_TOKEN} characters, all of them plain.", field="tokens")
        if len(set(users.values())) != len(users):
            raise InputError("Two users have the same token, so they could not be told apart.", field="tokens")
        self._users = dict(users)

    def __repr__(self) -> str:
        return f"Tokens({len(self._users)})"

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the user of a token, or None. All tokens are compared, so that timing reveals nothing."""
        found = None
        for user, known in self._users.items():
            if hmac.compare_digest(known.encode(), token.encode("utf-8", "surrogatepass")):
                found = user
        if found is None:
            return None
        return AccessToken(token="", client_id=found, scopes=[], subject=found)


def read_tokens(path: Path) -> dict[str, str]:
    """Return the tokens of a file: a JSON object from users to tokens. No message repeats anything of it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", field="tokens") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(user and isinstance(token, str) for user, token in found.items()):
        raise InputError(f"{path} must hold a JSON object from users to tokens.", field="tokens")
    return found


class TokenFile(Tokens):
    """The tokens in a file, which is read again when it has changed: one that is taken out of it is refused then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = _state_of(path)
        super().__init__(read_tokens(path))

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the user of a token as the file is now. While it cannot be read, nobody has one."""
        state = await asyncio.to_thread(_state_of, self._path)
        if state != self._read_at:
            self._read_at = state
            try:
                self._users = Tokens(await asyncio.to_thread(read_tokens, self._path))._users
            except InputError as error:
                self._users = {}
                logger.error("%s Until it is mended, no token is taken.", error)
        return await super().verify_token(token)


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Return what changes with a file; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class ScopedMemories:
    """The memories of all users, each made on their first request."""

    def __init__(self, store: Store, settings: Settings, summarizer: Summarizer | None) -> None:
        self._store = store
        self._settings = settings
        self._summarizer = summarizer
        self._memories: dict[str, ScopedMemory] = {}

    def __call__(self, context: RequestContext) -> ScopedMemory:
        """Return the memory of the user whose token came with the request."""
        visitor = context.request.scope.get("user") if context.request is not None else None
        user = visitor.access_token.subject if isinstance(visitor, AuthenticatedUser) else None
        if user is None:
            raise MCPError(INVALID_REQUEST, "The request is not authenticated.")
        if user not in self._memories:
            self._memories[user] = make_memory(self._store, self._settings, self._summarizer, user)
        return self._memories[user]

    async def close(self) -> None:
        for memory in self._memories.values():
            await memory.subscriptions.close()


def make_app(memories: ScopedMemories, settings: Settings, tokens: Tokens) -> Any:
    """Return the ASGI application. Requests from other origins and for other hosts are refused."""
    server = make_server(memories, rights_of(settings))
    return server.streamable_http_app(
        host="127.0.0.1",
        max_request_body_size=MAX_BODY,
        auth=AuthSettings(issuer_url=AnyHttpUrl("http://127.0.0.1"), resource_server_url=None),
        token_verifier=tokens,
    )


async def serve_http(settings: Settings, host: str, port: int, tokens: Tokens) -> None:
    """Serve until interrupted, and print the address to standard error."""
    if host not in LOOPBACK:
        raise InputError(
            "The server listens on this machine only: 127.0.0.1, ::1 or localhost. To reach it from elsewhere, put a "
            "proxy with TLS before it.",
            field="host",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"The server cannot listen on port {port}: {error.strerror}.", field="port") from None
    with closing(listening):
        async with opened(settings) as (store, summarizer):
            memories = ScopedMemories(store, settings, summarizer)
            config = uvicorn.Config(make_app(memories, settings, tokens), log_level="warning", access_log=False)
            printed = f"[{host}]" if ":" in host else host
            sys.stderr.write(f"memoranda mcp: http://{printed}:{listening.getsockname()[1]}/mcp\n")
            sys.stderr.flush()
            try:
                await uvicorn.Server(config).serve(sockets=[listening])
            finally:
                await memories.close()
