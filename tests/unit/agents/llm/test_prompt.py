from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from turnwise.agents.llm.model_call import fill_template
from turnwise.facts.errors import AgentFailed
from turnwise.ports.context import State


def fill(template: str, **state: Any) -> str:
    return fill_template(template, cast(State, {key.replace("__", ":"): value for key, value in state.items()}), "clerk")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{name} of {user:name} in {app:shop} at {temp:now}", "Ada of Bob in Tea at noon"),
        ("{n} {list} {flag} {empty}", '3 ["ü"] true '),
        ("[{nobody?}] [{user:nobody?}]", "[] []"),
        ("{{name}} {{name?}} {{user:name}}", "{name} {name?} {user:name}"),
        ("{data}", "{name}"),
        ('{"name": {"x": 1}} {} { name } {1} {a b} {other:name}', '{"name": {"x": 1}} {} { name } {1} {a b} {other:name}'),
        ("{{{name}}}", "{{name}}"),
        ("{a.b} {a-b} {_x}", "dot dash under"),
    ],
)
def test_a_template_is_filled_from_the_state(template: str, text: str) -> None:
    """A24: keys of every scope; braces that are no key stay, and values are not looked at again."""
    state = {"name": "Ada", "user__name": "Bob", "app__shop": "Tea", "temp__now": "noon", "data": "{name}"}
    more: dict[str, Any] = {"n": 3, "list": ["ü"], "flag": True, "empty": "", "a.b": "dot", "a-b": "dash", "_x": "under"}
    assert fill(template, **state, **more) == text


def test_a_key_that_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(AgentFailed, match=r"'clerk' name the state key 'user:nam'.*\{user:nam\?\}.*\{\{user:nam\}\}"):
        fill("Hello {user:nam}.", user__name="Ada")


ARTIFACTS = {"brief.md": "Be {name}.", "user:style v2.txt": "Be brief.", "notes/2026/may.txt": "Rain.", "empty": ""}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{artifact.brief.md} {name}", "Be {name}. Ada"),
        ("{artifact.user:style v2.txt}{artifact.notes/2026/may.txt?}", "Be brief.Rain."),
        ("[{artifact.empty}] [{artifact.none?}] {{artifact.brief.md}}", "[] [] {artifact.brief.md}"),
        (
            '{"artifact.x": 1} {artifact.x: 1} {artifact. } { artifact.brief.md }',
            '{"artifact.x": 1} {artifact.x: 1} {artifact. } { artifact.brief.md }',
        ),
        ("{artifact} {artifact_name}", "of the state too"),
    ],
)
def test_a_template_is_filled_from_artifacts(template: str, text: str) -> None:
    """A28: their text is data, as what the state holds is."""
    state = {"name": "Ada", "artifact": "of the state", "artifact_name": "too", "brief.md": "no artifact"}
    assert fill_template(template, cast(State, state), "clerk", ARTIFACTS) == text


def test_an_artifact_that_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(
        AgentFailed, match=r"'clerk' name the artifact 'none.md', which does not exist. Save it.*\{artifact.none.md\?\}"
    ):
        fill_template("{artifact.none.md}", cast(State, {"none.md": "x", "artifact.none.md": "y"}), "clerk", ARTIFACTS)


@given(st.text(alphabet="{}ab?: \n"), st.text())
def test_no_text_breaks_it_and_values_stand_as_they_are(template: str, value: str) -> None:
    state = cast(State, dict.fromkeys(("a", "b", "ab", "ba", "aa", "bb"), value))
    try:
        text = fill_template(template, state, "clerk")
    except AgentFailed:
        return
    if "{" not in template:
        assert text == template
    assert fill_template("{a}", state, "clerk") == value
