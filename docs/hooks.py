"""What the site does to pages: docstrings lose their markup of references, and each name that is asked for is there."""

from __future__ import annotations

import re
from typing import Any

import yaml
from mkdocs.exceptions import PluginError

_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc|obj):<code>(?:~[\w.]*\.)?")
_REFERENCE = re.compile(r"^::: (?P<name>[\w.]+)\n(?P<options>(?: {4}.*\n?)*)", re.MULTILINE)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Take Sphinx's roles off what docstrings quote; they mean nothing to a reader of the site.

    A name that a page asks for and that has no entry is an error: mkdocstrings leaves out what it does not find.
    """
    missing = [name for name in _wanted(page.markdown or "") if f'id="{name}"' not in html]
    if missing:
        raise PluginError(f"{page.file.src_uri} asks for names that are not there: {', '.join(missing)}")
    return _ROLE.sub("<code>", html)


def _wanted(markdown: str) -> list[str]:
    """Return the full names of everything that the reference blocks of a page name."""
    wanted = []
    for block in _REFERENCE.finditer(markdown):
        options = (yaml.safe_load(block["options"]) or {}).get("options", {})
        if options.get("show_root_heading", True):
            wanted.append(block["name"])
        wanted += [f"{block['name']}.{member}" for member in options.get("members") or []]
    return wanted
