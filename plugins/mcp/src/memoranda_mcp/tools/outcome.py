"""What every tool returns."""

from __future__ import annotations

import json

from pydantic import BaseModel


class Outcome(BaseModel):
    """The base of every tool's result."""

    def text(self) -> str:
        """Return it for clients that show text alone."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False, indent=1)
