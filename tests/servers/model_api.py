"""A small HTTP server that speaks OpenAI's chat and embeddings APIs, and misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]

_PATIENCE = 60.0


def completion(content: Any, *, reason: str = "stop", **message: Any) -> dict[str, Any]:
    """Return a chat completion as the API sends it."""
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": content, **message}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@dataclass
class ModelServer:
    """What was asked, and what will be answered: what was ordered, in turn, then good answers.

    A good chat answer is "In short."; the good vector of a text is its length, its number of a's and b's, and 1.
    """

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    delay: float = 0.0
    together: int = 1
    """How many requests there must have been at once before any is answered."""
    most_at_once: int = 0
    _at_once: int = 0
    _ordered: list[Answer] = field(default_factory=list)
    _lock: threading.Condition = field(default_factory=threading.Condition)

    def refuses(self, status: int, message: str = "no", times: int = 1) -> None:
        """Answer the next requests with this status."""
        body = {"error": {"message": message, "type": "error", "code": None, "param": None}}
        self._ordered += [(status, body)] * times

    def says(self, body: Any) -> None:
        """Answer the next request with this JSON, or these bytes, as if all were well."""
        self._ordered.append((200, body))

    def embeds(self, *vectors: Any) -> None:
        """Answer the next request with these vectors."""
        self.says(_embeddings(list(vectors), "m"))

    def answer(self, request: dict[str, Any], key: str) -> Answer:
        """Return the status and body for a request, and note it."""
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            answer = self._ordered.pop(0) if self._ordered else self._good(request)
            self._lock.notify_all()
            self._lock.wait_for(lambda: self.most_at_once >= self.together, timeout=_PATIENCE)
        time.sleep(self.delay)
        with self._lock:
            self._at_once -= 1
        return answer

    @staticmethod
    def vector_of(text: str) -> list[float]:
        """Return the good vector of a text."""
        return [float(len(text)), float(text.count("a")), float(text.count("b")), 1.0]

    def _good(self, request: dict[str, Any]) -> Answer:
        if "messages" in request:
            return 200, completion("In short.")
        return 200, _embeddings([self.vector_of(text) for text in request["input"]], request["model"])


def _embeddings(vectors: list[Any], model: str) -> dict[str, Any]:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    # The order of an answer is not promised; the index is.
    return {
        "object": "list",
        "model": model,
        "data": data[::-1],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Run the server on a free port of this machine for the block."""
    state = ModelServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = state.answer(request, self.headers.get("Authorization", ""))
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "text/html" if payload.startswith(b"<") else "application/json")
                self.send_header("Retry-After-Ms", "10")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except OSError:
                self.close_connection = True  # The client did not wait for the answer.

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield state
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
