"""What the site does to pages: docstrings lose their markup of references, and each name that is asked for is there.

So is the constructor of each class, with its parameters.
"""

from __future__ import annotations

import enum
import inspect
import pydoc
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
    bare = [name for name in _wanted(page.markdown or "") if not _shows_its_constructor(name, html)]
    if bare:
        raise PluginError(f"{page.file.src_uri} shows classes without their parameters: {', '.join(bare)}")
    # Two colons announce a block of code to Sphinx, and look like a slip here.
    return _ROLE.sub("<code>", html).replace("::</p>", ":</p>")


def _wanted(markdown: str) -> list[str]:
    """Return the full names of everything that the reference blocks of a page name."""
    wanted = []
    for block in _REFERENCE.finditer(markdown):
        options = (yaml.safe_load(block["options"]) or {}).get("options", {})
        if options.get("show_root_heading", True):
            wanted.append(block["name"])
        wanted += [f"{block['name']}.{member}" for member in options.get("members") or []]
    return wanted


def _shows_its_constructor(name: str, html: str) -> bool:
    """Say whether the entry of a class begins with what it is made from; what is no such class shows it always."""
    parameter = _first_parameter(name)
    entry = html.partition(f'id="{name}"')[2].partition('class="doc doc-contents')[0]
    return parameter is None or re.search(rf"\b{parameter}\b", re.sub(r"<[^>]+>", "", entry)) is not None


def _first_parameter(name: str) -> str | None:
    """Return the first parameter of a class that is made by calling it; None if there is none."""
    found = pydoc.locate(name)
    if not inspect.isclass(found) or issubclass(found, (enum.Enum, Exception)) or inspect.isabstract(found):
        return None
    if getattr(found, "_is_protocol", False):
        return None
    named = [name for name in inspect.signature(found).parameters if name not in ("args", "kwargs", "data")]
    return next(iter(named), None)
