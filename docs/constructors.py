"""Show the fields of a pydantic model as the parameters of its constructor.

Such a model has no ``__init__`` of its own, or one that takes anything. Its parameters are its fields, which several
classes define. mkdocstrings reads source text only, so the fields are read from the class itself.
"""

from __future__ import annotations

import enum
import importlib
import re
from typing import Any

import griffe
from pydantic import BaseModel
from pydantic.fields import FieldInfo

_VALIDATED = re.compile(r"Annotated\[(.+), \w+\(\w*\)\]")
"""A type with its validator, which a caller does not need to see."""


class ModelConstructors(griffe.Extension):
    """Show every pydantic model with its real constructor."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the constructor of a model with one that lists its fields."""
        model = getattr(importlib.import_module(cls.module.path), cls.name, None)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return
        parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
        for name, field in model.model_fields.items():
            annotation, default = _written(model, name), _default(field)
            kind = griffe.ParameterKind.keyword_only
            parameters.append(griffe.Parameter(name, annotation=annotation, default=default, kind=kind))
        cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters)))


def _written(model: type[BaseModel], name: str) -> str | None:
    """Return a field's annotation as in the source, which is shorter than pydantic's."""
    for owner in model.__mro__:
        annotation = vars(owner).get("__annotations__", {}).get(name)
        if annotation is not None:
            text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
            return _VALIDATED.sub(r"\1", text)
    return None


def _default(field: FieldInfo) -> str | None:
    """Return a field's default as code; ``...`` for a default factory."""
    if field.is_required():
        return None
    if field.default_factory is not None:
        return "..."
    default = field.default
    return f"{type(default).__name__}.{default.name}" if isinstance(default, enum.Enum) else repr(default)
