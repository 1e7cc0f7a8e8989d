"""The sections `experiments` and `policies`: what they make, and where their mistakes are."""

from pathlib import Path

import pytest

from turnwise.config.policies import read_experiment, read_policies
from turnwise.config.settings import Settings, read_settings
from turnwise.ports.experiments import Arm, Experiment

HEAD = "app: test\nroot: x:y\n"
WHOLE = """
policies:
  careful: {use: staples, options: {semantic: {threshold: 0.6}}, shadow: adk, shadow_may_ask: true}
  plain: adk
  written: {stages: [direct]}
  named: {use: adk, name: mine}
experiments:
  name: trial
  unit: user
  arms:
    today: {}
    careful: {policy: careful, weight: 2}
    plain: {policy: adk}
  metric: answered
  alpha: 0.01
  ripe_seconds: 60
  paired: false
  stop: {worse_by: 0.1, least_units: 50}
"""


def read(folder: Path, text: str) -> Settings:
    path = folder / "turnwise.yaml"
    path.write_text(HEAD + text)
    return read_settings(path)


def test_an_experiment_is_read(tmp_path: Path) -> None:
    settings = read(tmp_path, WHOLE)
    assert read_experiment(settings) == Experiment(
        name="trial",
        unit="user",
        arms=(Arm(name="today"), Arm(name="careful", policy="careful", weight=2.0), Arm(name="plain", policy="adk")),
        metric="answered",
        alpha=0.01,
        ripe_seconds=60.0,
        paired=False,
        worse_by=0.1,
        least_units=50,
    )
    assert settings.document.problems == ()


def test_the_defaults_are_those_of_an_experiment(tmp_path: Path) -> None:
    """As are those of the page of the configuration."""
    settings = read(tmp_path, "experiments: {name: x, arms: {a: {}, b: {}}}")
    assert read_experiment(settings) == Experiment(name="x", arms=(Arm(name="a"), Arm(name="b")))
    assert read_experiment(read(tmp_path, "")) is None


def test_policies_have_the_names_of_their_keys(tmp_path: Path) -> None:
    policies = read_policies(read(tmp_path, WHOLE))
    assert {key: policy.name for key, policy in policies.items()} == {
        "careful": "careful",
        "plain": "plain",
        "written": "written",
        "named": "mine",
    }
    careful = policies["careful"]
    assert (careful.shadow, careful.shadow_may_ask, careful.stages[2].options["threshold"]) == ("adk", True, 0.6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("experiments: {name: x, arms: {a: {}}}", "An experiment has 2 to 10 arms."),
        ("experiments: {name: x, arms: {a: {}, b: {weight: 0}}}", "weight"),
        ("experiments: {name: x, arms: {a: {}, 'b c': {}}}", "name that cannot be used"),
        ("experiments: {name: x y, arms: {a: {}, b: {}}}", "name that cannot be used"),
        ("experiments: {name: x, arms: {a: {}, b: {}}, metric: luck}", "metric"),
        ("experiments: {name: x, arms: {a: {}, b: {}}, alpha: 0.7}", "alpha"),
        ("experiments: {name: x, arms: {a: {}, b: {policy: stapels}}}", "There is no policy 'stapels'."),
        ("experiments: {name: x, arms: {a: {wieght: 1}, b: {}}}", "wieght"),
        ("policies: {a: {use: nothing}}", "nothing"),
        ("policies: {a: {use: default, options: {x: {y: 1}}}}", "'x'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    settings = read(tmp_path, text)
    read_policies(settings)
    read_experiment(settings)
    found = settings.document.problems
    assert len(found) == 1
    assert problem in str(found[0])
    assert "Traceback" not in str(found[0])
