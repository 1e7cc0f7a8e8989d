"""Definitions as values: what is defined, what is not, what a newer release wrote, and what differs."""

import pytest
from pydantic import ValidationError

from turnwise.facts.tree import AgentCard, Pattern
from turnwise.ports.definitions import (
    Definition,
    FieldChange,
    MadeByFactory,
    MadeByModel,
    MadeRemotely,
    MadeSomehow,
    PolicyDefinition,
    copied,
    differences,
)


def test_a_field_that_is_not_defined_keeps_the_value_in_code() -> None:
    """C11."""
    code = AgentCard(name="a", description="From code.", examples=("one",), tags=("x",), routable=False)
    defined = Definition(name="a", description="Defined.", tags=(), patterns=(Pattern(regex="x"),)).card_of(code)
    assert defined == code.replace(description="Defined.", tags=(), patterns=(Pattern(regex="x"),))


def test_the_card_of_an_agent_that_is_not_in_code() -> None:
    assert Definition(name="a", enabled=False).card_of() == AgentCard(name="a", enabled=False)


@pytest.mark.parametrize(
    ("made_by", "form"),
    [
        ('{"use": "x"}', MadeByFactory),
        ('{"kind": "llm", "model": "m"}', MadeByModel),
        ('{"remote": "https://a.example"}', MadeRemotely),
        ('{"kind": "quantum"}', MadeSomehow),
    ],
)
def test_the_form_follows_from_the_keys(made_by: str, form: type) -> None:
    found = Definition.model_validate_json(f'{{"name": "a", "made_by": {made_by}}}')
    assert type(found.made_by) is form
    assert bool(found.unknown_fields) is (form is MadeSomehow)


def test_secrets_of_headers_are_not_shown() -> None:
    made = Definition(name="a", made_by=MadeRemotely(remote="https://a.example", headers={"Authorization": "secret"}))
    assert "secret" not in repr(made)


def test_unknown_fields_at_every_depth() -> None:
    text = '{"name":"a","x":1,"skills":[{"name":"s"},{"name":"t","y":1}],"made_by":{"kind":"llm","model":"m","z":{}}}'
    assert set(Definition.model_validate_json(text).unknown_fields) == {"x", "skills.1.y", "made_by.z"}
    slots = '{"name":"a","made_by":{"kind":"reply","templates":[{"text":["t"]}],"slots":{"s":{"w":1}}}}'
    assert Definition.model_validate_json(slots).unknown_fields == ("made_by.slots.s.w",)


def test_a_name_must_be_an_agents_name() -> None:
    with pytest.raises(ValidationError, match="reserved"):
        Definition(name="user")


def test_differences_are_by_path() -> None:
    old = Definition(name="a", description="1", made_by=MadeByModel(kind="llm", model="m", tools=("t",)))
    new = Definition(name="a", enabled=False, made_by=MadeByModel(kind="llm", model="n", tools=("t",)), status="draft")
    assert differences(old, new) == (
        FieldChange(path="description", before="1", after=None),
        FieldChange(path="enabled", before=None, after=False),
        FieldChange(path="made_by.model", before="m", after="n"),
        FieldChange(path="status", before="active", after="draft"),
    )
    assert differences(old, old) == ()
    assert {each.path for each in differences(None, PolicyDefinition(policy="default"))} == {"name", "policy", "status"}


def test_a_copy_has_the_content_alone() -> None:
    """F6."""
    old = Definition(name="a", description="1", version=4, revision=9, author="ann", note="why", status="retired")
    copy = copied(old, "active")
    assert copy == Definition(name="a", description="1", status="active")
