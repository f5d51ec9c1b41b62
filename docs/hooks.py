"""What the site does to pages: cross-references in docstrings become plain code."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc|obj):<code>(?:~[\w.]*\.)?")


def on_page_content(html: str, **_: Any) -> str:
    """Take Sphinx's roles off what docstrings quote; they mean nothing to a reader of the site."""
    return _ROLE.sub("<code>", html)
