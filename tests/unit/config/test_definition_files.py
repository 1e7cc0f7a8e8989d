"""Definitions as YAML: written and read without loss."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from turnwise.config.definition_documents import definitions_text, read_definitions_file
from turnwise.facts.errors import DefinitionInvalid
from turnwise.facts.tree import LearnedExample, Pattern, Skill
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.definitions import (
    AnyDefinition,
    Definition,
    MadeByFactory,
    MadeByModel,
    MadeOfTemplates,
    MadeRemotely,
    PolicyDefinition,
    ReplyTemplate,
    Slot,
)

# What YAML and every database can hold: no lone surrogates, no NUL.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
SPECIAL = st.sampled_from(
    [
        "",
        "yes",
        "null",
        "1",
        "1.0",
        "0x1f",
        "2026-01-01",
        "${HOME}",
        "$${A}",
        "- a",
        "a: b",
        "'",
        '"',
        "#",
        "a\n b\n",
        " x ",
        "\t",
        "\x85",
        "\u2028",
        "~",
        "=",
        "<<",
        "🔑",
        "\r\n",
        "\x1b",
        "\ufeff",
    ]
)
WORDS = st.one_of(TEXT, SPECIAL)
NAMES = st.from_regex(r"[a-z][a-z0-9 :#'-]{0,8}[a-z]", fullmatch=True).filter(lambda name: name != "user")
NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False, width=32))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(WORDS, below, max_size=3)),
    max_leaves=6,
)
OPTIONS = st.dictionaries(WORDS, JSON, max_size=3)
TEXTS = st.lists(WORDS, max_size=3).map(tuple)
PATTERNS = st.builds(
    Pattern,
    regex=st.sampled_from([r"\bparcel\b", "a{2}", "x|y", "é"]),
    confidence=st.floats(0, 1),
    active=st.booleans(),
    label=WORDS,
)
TEMPLATES = st.builds(
    ReplyTemplate, text=st.lists(WORDS, min_size=1, max_size=2).map(tuple), when=OPTIONS, slots=TEXTS, channels=TEXTS
)
MADE = st.one_of(
    st.none(),
    st.builds(MadeByFactory, use=WORDS, options=OPTIONS),
    st.builds(MadeByModel, kind=st.just("llm"), model=WORDS, instructions=WORDS, tools=TEXTS),
    st.builds(MadeRemotely, remote=WORDS, headers=st.dictionaries(WORDS, WORDS, max_size=2)),
    st.builds(
        MadeOfTemplates,
        kind=st.just("reply"),
        templates=st.lists(TEMPLATES, min_size=1, max_size=2).map(tuple),
        slots=st.dictionaries(WORDS, st.builds(Slot, pattern=WORDS, state=WORDS), max_size=2),
        seed=st.integers(-5, 5),
    ),
)


def _maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), strategy)


AGENTS = st.builds(
    Definition,
    name=NAMES,
    status=st.sampled_from(["active", "draft"]),
    note=WORDS,
    description=_maybe(WORDS),
    not_for=_maybe(WORDS),
    examples=_maybe(TEXTS),
    learned=_maybe(
        st.lists(st.builds(LearnedExample, text=WORDS, user=WORDS, sequence=st.integers(0, 9)), max_size=2).map(tuple)
    ),
    skills=_maybe(st.lists(st.builds(Skill, name=WORDS, description=WORDS, examples=TEXTS), max_size=2).map(tuple)),
    patterns=_maybe(st.lists(PATTERNS, max_size=2).map(tuple)),
    parent=_maybe(NAMES),
    roles=_maybe(TEXTS),
    resume=_maybe(st.sampled_from(["auto", "never", "always"])),
    enabled=_maybe(st.booleans()),
    time_limit=_maybe(st.floats(0.1, 1e6)),
    made_by=MADE,
)
POLICIES = st.builds(PolicyDefinition, name=NAMES, policy=st.one_of(WORDS, OPTIONS), note=WORDS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=60)
@given(st.lists(AGENTS, max_size=2, unique_by=lambda each: each.name), st.lists(POLICIES, max_size=1))
def test_what_is_exported_is_imported_without_loss(
    tmp_path: Path, agents: list[AnyDefinition], policies: list[AnyDefinition]
) -> None:
    """C11: every field, every text, every JSON value; absent and empty stay apart."""
    file = tmp_path / "definitions.yaml"
    file.write_text(definitions_text([*agents, *policies]), "utf-8", newline="")
    assert read_definitions_file(file) == [*agents, *policies]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("agents: [{name: a, x: 1}, {name: b, enabled: 3}]", ["1: The definition 'a' has no key 'x'", "1: The definition 'b'"]),
        ("agents: [{name: a}, {name: a}]", ["two definitions of the agent 'a'"]),
        ("agent: [{name: a}]", ["unknown key 'agent'"]),
        ("agents: [a]", ["keys and values"]),
        ("agents: [{name: a, patterns: [{regex: '('}]}]", ["The pattern '(' of 'a'"]),
        ("policies: [{name: main}]", ["policy"]),
    ],
)
def test_each_mistake_of_a_file_is_said(tmp_path: Path, text: str, problems: list[str]) -> None:
    (tmp_path / "d.yaml").write_text(text)
    with pytest.raises(DefinitionInvalid) as refused:
        read_definitions_file(tmp_path / "d.yaml")
    found = [each.problem for each in refused.value.problems]
    assert len(found) == len(problems)
    for said, wanted in zip(found, problems, strict=True):
        assert wanted in said


def test_the_patterns_of_these_tests_are_valid() -> None:
    PatternIndex([("a", regex, 1.0) for regex in (r"\bparcel\b", "a{2}", "x|y", "é")])
