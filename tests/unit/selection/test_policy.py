"""Policies as data (C18)."""

import json
from typing import Any

import pytest
import yaml

from turnwise.facts.errors import PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.messages import MessageContext
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec, fingerprint, options_of, policy_from

YAML = r"""
name: support
default: general
stages:
  - direct
  - {name: bar, selector: patterns, options: {threshold: 0.95}}
  - selector: patterns
    options:
      margin: 0.1
  - {selector: "mine:make", options: {words: [a, b]}}
segments:
  - when: {channel: voice, user_kind: [guest, trial]}
    options: {patterns: {threshold: 0.8}}
    default: operator
"""


def test_a_policy_is_read_from_yaml() -> None:
    assert policy_from(yaml.safe_load(YAML)) == PolicySpec(
        name="support",
        default="general",
        stages=(
            StageSpec(selector="direct"),
            StageSpec(name="bar", selector="patterns", options={"threshold": 0.95}),
            StageSpec(selector="patterns", options={"margin": 0.1}),
            StageSpec(selector="mine:make", options={"words": ["a", "b"]}),
        ),
        segments=(
            SegmentSpec(
                when={"channel": "voice", "user_kind": ("guest", "trial")},
                options={"patterns": {"threshold": 0.8}},
                default="operator",
            ),
        ),
    )


def test_a_policy_survives_json() -> None:
    spec = policy_from(yaml.safe_load(YAML))
    assert PolicySpec.model_validate_json(spec.model_dump_json()) == spec
    assert policy_from(json.loads(spec.model_dump_json())) == spec


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"stage": ["direct"]}, "'stage' is not known"),
        ({"stages": [{"selector": "direct", "option": {}}]}, "'stages.0.option' is not known"),
        ({"stages": [{"options": {}}]}, "'stages.0.selector'"),
        ({"stages": "direct"}, "'stages'"),
        ({"stages": [3]}, "'stages.0'"),
        ({"stages": None}, "'stages'"),
        ({"name": 7}, "'name'"),
        ({"segments": [{"when": {"channel": 3}}]}, "segments.0.when.channel"),
        ({"segments": [{}]}, "'segments.0.when'"),
        ({"stages": ["direct", {"selector": "resume", "name": "direct"}]}, "two stages named 'direct'"),
    ],
)
def test_a_mistake_is_named_with_its_place(data: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_from(data)
    assert says in caught.value.problem
    assert caught.value.fix


def test_stages_have_names_of_their_own() -> None:
    def spec(*stages: str | tuple[str, str]) -> PolicySpec:
        return PolicySpec(
            stages=tuple(
                StageSpec(selector=each) if isinstance(each, str) else StageSpec(selector=each[0], name=each[1])
                for each in stages
            )
        )

    assert spec("patterns", "resume", "patterns", "patterns").stage_names() == (
        "patterns",
        "resume",
        "patterns-2",
        "patterns-3",
    )
    assert spec(("patterns", "high"), "patterns").stage_names() == ("high", "patterns")
    with pytest.raises(PolicyError, match="two stages named 'x'"):
        spec(("patterns", "x"), ("resume", "x")).stage_names()


def test_options_replace_a_stages_own() -> None:
    spec = PolicySpec(
        stages=(StageSpec(selector="patterns", options={"threshold": 0.7, "margin": 0.1}), StageSpec(selector="resume"))
    )
    changed = spec.with_options({"patterns": {"threshold": 0.9}}, default="a")
    assert changed.stages[0].options == {"threshold": 0.9, "margin": 0.1}
    assert changed.stages[1] == spec.stages[1]
    assert (changed.default, spec.default) == ("a", None)
    assert spec.stages[0].options["threshold"] == 0.7
    with pytest.raises(PolicyError, match=r"no stage 'pattern'.*patterns, resume"):
        spec.with_options({"pattern": {}})


@pytest.mark.parametrize(
    ("when", "context", "applies"),
    [
        ({"channel": "voice"}, {"channel": "voice"}, True),
        ({"channel": "voice"}, {"channel": "web"}, False),
        ({"channel": "voice"}, {}, False),
        ({"channel": ("voice", "phone")}, {"channel": "phone"}, True),
        ({"channel": "voice", "user_kind": "guest"}, {"channel": "voice"}, False),
        ({"channel": "voice", "user_kind": "guest"}, {"channel": "voice", "user_kind": "guest"}, True),
    ],
)
def test_a_segment_applies_when_every_condition_holds(when: dict[str, Any], context: dict[str, Any], applies: bool) -> None:
    """C18"""
    assert SegmentSpec(when=when).applies(MessageContext(**context)) is applies


def test_a_segment_is_labelled_by_its_conditions() -> None:
    assert (
        SegmentSpec(when={"user_kind": ("guest", "trial"), "channel": "voice"}).label == "channel=voice, user_kind=guest|trial"
    )
    assert SegmentSpec(when={"channel": "voice"}, name="calls").label == "calls"


class Options(Fact):
    threshold: float = 0.5
    order: tuple[str, ...] = ()


def test_options_are_read_as_from_json() -> None:
    assert options_of("p", "s", Options, {"order": ["a"], "threshold": 1}) == Options(order=("a",), threshold=1.0)


@pytest.mark.parametrize(
    "options", [{"treshold": 1}, {"threshold": "0.7"}, {"threshold": True}, {"order": "a"}, {"threshold": float("nan")}]
)
def test_a_bad_option_is_named_with_its_stage(options: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="Policy 'p', stage 's': ") as caught:
        options_of("p", "s", Options, options)
    assert caught.value.fix == "Its options: threshold, order."


def test_a_fingerprint_is_of_the_data_alone() -> None:
    """E9"""
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": [1, 2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint(["é"]) == "d8f81e7a2fa14557"


@pytest.mark.parametrize(
    ("stages", "general"),
    [
        (["direct"], "desk"),
        (["contextual"], "desk"),
        ([{"selector": "contextual", "options": {"general": "chat"}}], "chat"),
        (["contextual", {"selector": "smalltalk", "options": {"agent": "chat"}}], "chat"),
        ([{"selector": "default", "options": {"agent": "chat"}}], "desk"),
    ],
)
def test_the_agent_for_small_talk_is_what_a_stage_names_else_the_default(stages: list[Any], general: str) -> None:
    """C6"""
    assert policy_from({"stages": stages, "default": "desk"}).general == general
    assert policy_from({"stages": stages}).general == (general if general != "desk" else None)
