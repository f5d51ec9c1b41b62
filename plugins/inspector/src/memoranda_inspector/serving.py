"""Serving the inspector on a socket that is bound already."""

from __future__ import annotations

import socket

import uvicorn

from memoranda_inspector.app import Inspector, create_app


async def serve(inspector: Inspector, listening: socket.socket, token: str) -> None:
    """Serve until Ctrl-C, or until the task is cancelled. Who connects before is answered as soon as it serves.

    Nothing is logged of what is asked for: an address may hold an id, and a failure what was stored.
    """
    config = uvicorn.Config(
        create_app(inspector, port=listening.getsockname()[1], token=token),
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=1,
        # A browser sends the cookies of every program that this machine serves, and there may be many.
        h11_max_incomplete_event_size=1_000_000,
    )
    await uvicorn.Server(config).serve(sockets=[listening])
