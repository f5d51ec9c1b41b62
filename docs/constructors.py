"""Show the fields of a pydantic model as the parameters of its constructor.

Such a model has no ``__init__`` of its own, or one that takes anything: what may be passed are its fields, which are
written in several classes. The pages are made from source text, so the fields are asked of the class itself.
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
"""A type with how it is checked, which is of no use to whoever calls."""


class ModelConstructors(griffe.Extension):
    """Give every pydantic model the constructor that it has when it is used."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the constructor of a model by one with its fields."""
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
    """Return a field's annotation as the source has it, which is shorter than what pydantic makes of it."""
    for owner in model.__mro__:
        annotation = vars(owner).get("__annotations__", {}).get(name)
        if annotation is not None:
            text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
            return _VALIDATED.sub(r"\1", text)
    return None


def _default(field: FieldInfo) -> str | None:
    """Return a field's default as code; ``...`` for one that is made anew each time."""
    if field.is_required():
        return None
    if field.default_factory is not None:
        return "..."
    default = field.default
    return f"{type(default).__name__}.{default.name}" if isinstance(default, enum.Enum) else repr(default)
