"""Clean the markup of docstrings on the site, and check that every name and constructor a page asks for is there."""

from __future__ import annotations

import enum
import inspect
import logging
import pydoc
import re
from typing import Any

import yaml
from mkdocs.exceptions import PluginError
from pydantic import BaseModel

_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc|obj):<code>(?:~[\w.]*\.)?")
_REFERENCE = re.compile(r"^::: (?P<name>[\w.]+)\n(?P<options>(?: {4}.*\n?)*)", re.MULTILINE)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Remove Sphinx's roles, which mean nothing on the site.

    Raises PluginError if a page asks for a name that has no entry: mkdocstrings silently leaves out unknown names.
    """
    missing = [name for name in _wanted(page.markdown or "") if f'id="{name}"' not in html]
    if missing:
        raise PluginError(f"{page.file.src_uri} asks for names that are not there: {', '.join(missing)}")
    bare = [name for name in _wanted(page.markdown or "") if not _shows_its_constructor(name, html)]
    if bare:
        raise PluginError(f"{page.file.src_uri} shows classes without their parameters: {', '.join(bare)}")
    # Two colons announce a code block to Sphinx, but look like a typo here.
    return _ROLE.sub("<code>", html).replace("::</p>", ":</p>")


def _wanted(markdown: str) -> list[str]:
    """Return the full names of all members that the reference blocks of a page list."""
    wanted = []
    for block in _REFERENCE.finditer(markdown):
        options = (yaml.safe_load(block["options"]) or {}).get("options", {})
        if options.get("show_root_heading", True):
            wanted.append(block["name"])
        wanted += [f"{block['name']}.{member}" for member in options.get("members") or []]
    return wanted


def _shows_its_constructor(name: str, html: str) -> bool:
    """Return True if the entry of a class shows its constructor, and for every name that is not such a class."""
    parameter = _first_parameter(name)
    entry = html.partition(f'id="{name}"')[2].partition('class="doc doc-contents')[0]
    return parameter is None or re.search(rf"\b{parameter}\b", re.sub(r"<[^>]+>", "", entry)) is not None


def _first_parameter(name: str) -> str | None:
    """Return the first parameter of a class that can be called; None if it has none."""
    found = pydoc.locate(name)
    if not inspect.isclass(found) or issubclass(found, (enum.Enum, Exception)) or inspect.isabstract(found):
        return None
    # Of a model, the site shows the fields; a filter of logs inherits a constructor that nothing here documents.
    if issubclass(found, (BaseModel, logging.Filter)):
        return None
    if getattr(found, "_is_protocol", False) or hasattr(found, "_fields"):  # A named tuple lists its fields below.
        return None
    named = [name for name in inspect.signature(found).parameters if name not in ("args", "kwargs", "data")]
    return next(iter(named), None)
