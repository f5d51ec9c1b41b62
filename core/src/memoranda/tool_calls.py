"""Read a tool call in any of the usual forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoranda.errors import InputError
from memoranda.shapes import json_text


def call_name(call: Mapping[str, Any]) -> str:
    """Return the name of the tool that a call asks for, in a flat call or an OpenAI one."""
    return str(_holder(call).get("name") or "")


def call_arguments(call: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON text, or any other text that the model wrote instead.

    Raises InputError for arguments that JSON cannot hold.
    """
    holder = _holder(call)
    arguments = holder.get("arguments", holder.get("args", holder.get("input")))
    if isinstance(arguments, str):
        return arguments
    try:
        return json_text({} if arguments is None else arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The arguments of a tool call of type {type(arguments).__name__} hold what JSON cannot.", field="arguments"
        ) from error


def _holder(call: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = call.get("function") or call.get("custom")
    return inner if isinstance(inner, Mapping) else call
