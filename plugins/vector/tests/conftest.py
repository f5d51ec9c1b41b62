"""A small HTTP server that speaks the embeddings API and misbehaves on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes single examples slow, which says nothing about the code.
settings.register_profile("recollect", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("recollect")

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


@dataclass
class EmbeddingServer:
    """What was asked, and what will be answered: what was ordered, in turn, then good answers.

    The good vector of a text is its length, its number of a's and b's, and 1.
    """

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    delay: float = 0.0
    most_at_once: int = 0
    _at_once: int = 0
    _ordered: list[Answer] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refuses(self, status: int, message: str = "no", times: int = 1) -> None:
        """Answer the next requests with this status."""
        body = {"error": {"message": message, "type": "error", "code": None, "param": None}}
        self._ordered += [lambda request: (status, body)] * times

    def says(self, body: Any) -> None:
        """Answer the next request with this JSON, or these bytes, as if all were well."""
        self._ordered.append(lambda request: (200, body))

    def embeds(self, *vectors: Any) -> None:
        """Answer the next request with these vectors."""
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        self.says({"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    def answer(self, request: dict[str, Any], key: str) -> tuple[int, Any]:
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            ordered = self._ordered.pop(0) if self._ordered else self._good
        time.sleep(self.delay)
        with self._lock:
            self._at_once -= 1
        return ordered(request)

    @staticmethod
    def vector_of(text: str) -> list[float]:
        return [float(len(text)), float(text.count("a")), float(text.count("b")), 1.0]

    def _good(self, request: dict[str, Any]) -> tuple[int, Any]:
        data = [
            {"object": "embedding", "index": index, "embedding": self.vector_of(text)}
            for index, text in enumerate(request["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        # The order of an answer is not promised; the index is.
        return 200, {"object": "list", "model": request["model"], "data": data[::-1], "usage": usage}


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """The server, on a free port of this machine."""
    state = EmbeddingServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = state.answer(request, self.headers.get("Authorization", ""))
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
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
    yield state
    http.shutdown()
    thread.join()
    http.server_close()
