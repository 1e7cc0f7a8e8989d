"""The policy of a configuration file."""

from pathlib import Path

import pytest
from config_play import line_only

from turnwise.config.policies import location_of_error, read_policy, read_policy_file
from turnwise.config.settings import Settings, read_settings
from turnwise.facts.errors import ConfigError, PolicyError
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.selection.cascade import Cascade


def settings(folder: Path, policy: str) -> Settings:
    (folder / "t.yaml").write_text(f"app: x\nroot: a:b\n{policy}")
    return read_settings(folder / "t.yaml", {})


def told(folder: Path, policy: str) -> list[str]:
    read = settings(folder, policy)
    assert read_policy(read) is None
    return [f"{error.code} {line_only(error)}".replace(f"{folder}/t.yaml:", "") for error in read.document.problems]


def test_a_policy_by_name(tmp_path: Path) -> None:
    assert getattr(read_policy(settings(tmp_path, "")), "name", None) == "default"
    assert getattr(read_policy(settings(tmp_path, "policy: adk\n")), "name", None) == "adk"


def test_an_agent_for_messages_that_ask_several(tmp_path: Path) -> None:
    for text in ("policy: {use: default, several: both}\n", "policy: {stages: [direct], several: both}\n"):
        assert getattr(read_policy(settings(tmp_path, text)), "several", None) == "both"


def test_a_named_policy_with_changes(tmp_path: Path) -> None:
    text = (
        "policy:\n  use: elemental-iterative\n  name: round\n  default: a\n  options: {iterative: {order: [a, b]}}\n"
        "  segments:\n    - {when: {channel: [web, app]}, default: b}\n"
    )
    policy = read_policy(settings(tmp_path, text))
    assert policy is not None
    assert (policy.name, policy.default, policy.stages[0].options) == ("round", "a", {"order": ["a", "b"]})
    assert policy.segments[0].when == {"channel": ("web", "app")}


def test_a_policy_written_out(tmp_path: Path) -> None:
    text = (
        "policy:\n  name: own\n  stages:\n    - direct\n    - {selector: patterns, options: {threshold: 0.5}}\n  default: a\n"
    )
    policy = read_policy(settings(tmp_path, text))
    assert policy is not None
    assert [stage.selector for stage in policy.stages] == ["direct", "patterns"]
    assert policy.stages[1].options == {"threshold": 0.5}


@pytest.mark.parametrize(
    "model",
    ["openai:gpt-5-mini", "{model: m, url: 'http://h/v1', key: k}", "[openai:a, {model: m, url: 'http://h/v1'}]"],
)
def test_a_model_that_decides_is_named_in_three_forms(tmp_path: Path, model: str) -> None:
    for text in (
        f"policy:\n  use: default-with-model\n  options: {{model: {{model: {model}}}}}\n",
        f"policy:\n  stages:\n    - {{selector: model, name: ask, options: {{model: {model}}}}}\n",
    ):
        policy = read_policy(settings(tmp_path, text))
        assert policy is not None
        Cascade(policy, AgentTree([AgentCard(name="a")]), {})


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("  use: default-with-model\n  options:\n    model:\n      model: gpt\n", "config 7: There is no model 'gpt'."),
        ("  stages:\n    - selector: model\n      options:\n        model: 3\n", "config.policy 7: Here a model was expected"),
        (
            "  use: default-with-model\n  options: {model: {model: {import: 'a:b'}}}\n",
            "config.policy 5: A model needs 'model'.",
        ),
        (
            "  use: default-with-model\n  segments:\n    - when: {channel: web}\n      options:\n"
            "        model: {model: {url: x}}\n",
            "config.policy 8: A model needs 'model'.",
        ),
    ],
)
def test_a_model_that_cannot_be_names_its_line(tmp_path: Path, policy: str, problem: str) -> None:
    assert told(tmp_path, f"policy:\n{policy}")[0].startswith(problem)


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ("policy: dflt\n", "config.policy 3: There is no policy named 'dflt'."),
        ("policy:\n  use: dflt\n", "config.policy 4: There is no policy named 'dflt'."),
        ("policy:\n  use: adk\n  option: {}\n", "config.policy 5: There is no key 'option' here. Did you mean 'options'?"),
        ("policy:\n  use: adk\n  options:\n    iterativ: {}\n", "config.policy 6: Policy 'adk' has no stage 'iterativ'."),
        ("policy:\n  stages:\n    - direct\n    - {selecter: x}\n", "config.policy 6: "),
        ("policy:\n  stages: direct\n", "config.policy 4: 'stages' should be a list, but is text."),
        ("policy:\n  stage: []\n", "config.policy 4: There is no key 'stage' here. Did you mean 'stages'?"),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, policy: str, problem: str) -> None:
    assert told(tmp_path, policy)[0].startswith(problem)


def test_the_culprit_is_the_last_thing_quoted_that_stands_in_the_policy(tmp_path: Path) -> None:
    text = "policy:\n  stages:\n    - selector: iterative\n      options:\n        order:\n          - a\n          - nobody\n"
    document = settings(tmp_path, text).document
    error = PolicyError("Policy 'custom', stage 'iterative', 'order': there is no agent 'nobody'.")
    assert document.mark(location_of_error(document, error)).line == 9
    assert document.mark(location_of_error(document, PolicyError("Nothing is quoted."))).line == 3


def test_a_policy_in_a_file_of_its_own(tmp_path: Path) -> None:
    """C18: what may stand below `policy`, in all its forms, or a file with that key."""
    forms = {
        "stages: [direct]\nname: a\n": "a",
        "use: adk\nname: b\n": "b",
        "policy: adk\n": "adk",
        "app: x\npolicy: {stages: [direct], name: c}\n": "c",
    }
    for text, name in forms.items():
        (tmp_path / "p.yaml").write_text(text)
        assert read_policy_file(tmp_path / "p.yaml").name == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nstages:\n  - {selector: 5}\n", "p.yaml:3: "),
        ("use: nope\n", "p.yaml:1: There is no policy named 'nope'."),
        ("policy: 5\n", "p.yaml:1: 'policy' should be a policy's name or keys and values"),
        ("[1]\n", "p.yaml:1: The file holds a list"),
        ("", "p.yaml:1: The file is empty"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    """C18"""
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_policy_file(tmp_path / "p.yaml")
    assert said in line_only(caught.value)
    assert "app:" not in caught.value.fix
