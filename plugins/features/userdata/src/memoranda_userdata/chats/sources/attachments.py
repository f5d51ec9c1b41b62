"""The images that lie beside an export, in its folder or archive."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cached_property

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Attachments:
    """Finds files by the beginnings of their names. ``listed`` returns the reader of each file, by its name."""

    def __init__(self, listed: Callable[[], Mapping[str, Callable[[], bytes]]] = dict) -> None:
        self._listed = listed

    @cached_property
    def _files(self) -> Mapping[str, Callable[[], bytes]]:
        return self._listed()

    def image_url(self, file_id: str) -> str | None:
        """Return the image of an id as a ``data:`` URL; None if there is no such file, or it is no image."""
        name = next((name for name in self._files if _is_of(name, file_id)), None) if file_id else None
        if name is None:
            return None
        data = self._files[name]()
        kind = next((kind for begins, kind in _KINDS if data.startswith(begins)), None)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            kind = "image/webp"
        return None if kind is None else f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _is_of(name: str, file_id: str) -> bool:
    """Return True if a file's name is the id, alone or before a name or an ending."""
    return name.startswith(file_id) and not name[len(file_id) :][:1].isalnum()
