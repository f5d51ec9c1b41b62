"""Models made like a template."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from memoranda_messages.sessions import Template


class Said(BaseModel):
    text: str = ""
    tags: list[str] = Field(default_factory=list)
    beside: dict[str, Any] = Field(default_factory=dict)


def test_a_model_like_a_template_is_as_if_it_were_validated() -> None:
    made, validated = Template(Said(text="Hi"))(beside={"a": 1}), Said(text="Hi", beside={"a": 1})

    assert made == validated
    assert made.model_fields_set == validated.model_fields_set
    assert made.model_dump_json(exclude_unset=True) == validated.model_dump_json(exclude_unset=True)


def test_models_of_a_template_share_nothing() -> None:
    model = Said(tags=["old"])
    template = Template(model)
    one, other = template(), template()

    one.tags.append("new")
    one.beside["b"] = 2
    one.text = "changed"

    assert other == model == template() == Said(tags=["old"])
    assert other.model_fields_set == {"tags"}
