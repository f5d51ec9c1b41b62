"""A web service in which each request has a handle for one user's session and nothing else.

pip install -r requirements.txt fastapi uvicorn
uvicorn --app-dir examples fastapi_app:app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from pydantic import BaseModel

import memoranda
from memoranda import HumanMemory
from memoranda.errors import InputError, StoreUnavailableError
from memoranda.store import ScopedStore
from memoranda_messages import to_openai


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open one store for the process; all requests share its pool."""
    async with memoranda.open(os.environ.get("MEMORANDA_URL", "sqlite:///agent.db")) as store:
        app.state.store = store
        yield


app = FastAPI(lifespan=lifespan)


async def current_user(authorization: Annotated[str | None, Header()] = None) -> str:
    """Return the user. Check a token here: this example trusts the header."""
    scheme, _, user = (authorization or "").partition(" ")
    if scheme != "Bearer" or not user:
        raise HTTPException(401, "Say who you are.")
    return user


async def of_user(request: Request, user: Annotated[str, Depends(current_user)]) -> ScopedStore:
    """Return the user's handle. A missing user gets none: `scoped` refuses None."""
    handle: ScopedStore = request.app.state.store.scoped(user_id=user)
    return handle


async def of_session(session_id: str, mine: Annotated[ScopedStore, Depends(of_user)]) -> ScopedStore:
    """Return the handle of one session of the user."""
    try:
        return mine.scoped(session_id=session_id)
    except InputError as error:
        raise HTTPException(422, str(error)) from error


Mine = Annotated[ScopedStore, Depends(of_user)]
Session = Annotated[ScopedStore, Depends(of_session)]


class Said(BaseModel):
    """The body of a request."""

    text: str


@app.post("/sessions/{session_id}/messages", status_code=201)
async def say(said: Said, session: Session) -> dict[str, str]:
    """Store a message in a session."""
    item = HumanMemory(content=said.text)
    try:
        await session.add(item)
    except StoreUnavailableError as error:
        raise HTTPException(503, "The memory cannot be reached. Try again.") from error
    return {"id": item.id}


@app.get("/sessions/{session_id}/window")
async def window(session: Session, rounds: int = 20) -> list[dict[str, Any]]:
    """Return the part of a session that a model would see."""
    return to_openai(await session.window(rounds=rounds))


@app.get("/search")
async def search(query: str, mine: Mine) -> list[str]:
    """Return what the user said about something, in any session."""
    return [item.content for item in await mine.search(query=query, mode="text", limit=5)]


@app.delete("/me")
async def forget(mine: Mine) -> dict[str, int]:
    """Remove all of the user's items for good."""
    return {"removed": await mine.purge()}
