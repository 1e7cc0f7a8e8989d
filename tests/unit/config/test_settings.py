"""What turnwise.yaml may say."""

from pathlib import Path

import pytest
from config_play import line_only

from turnwise.config.app_file import DEFAULT_STORE, ChangedPolicy, EndpointEncoderSection, Reference
from turnwise.config.entries import list_entries
from turnwise.config.settings import Settings, find_file, read_settings
from turnwise.facts.errors import ConfigError
from turnwise.facts.limits import ProcessConfig, RunConfig


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(text: str) -> Settings:
    Path("turnwise.yaml").write_text(text)
    return read_settings(Path("turnwise.yaml"), {})


def problems(text: str) -> list[str]:
    return [line_only(error).removeprefix("turnwise.yaml:") for error in settings(text).document.problems]


def test_the_least_that_can_be_said() -> None:
    read = settings("app: shop\nroot: agents:desk\n")
    assert read.document.problems == ()
    file = read.file
    assert (file.app, read.root_name, file.policy, file.store, file.artifacts) == ("shop", None, "default", DEFAULT_STORE, None)
    assert [entry.run for entry in list_entries(read)] == ["agents:desk"]


def test_everything_that_can_be_said() -> None:
    read = settings(
        "app: shop\nroot: desk\nagents: [agents:desk]\npolicy: {use: adk}\nselectors: {mine: sel:Mine}\n"
        "store: {import: 'my.store:Store', options: {a: 1}}\nartifacts: files\nlimits: {turns: 3, attempts: 5}\n"
        "process: {lease_seconds: 2, concurrency: 7, recovery_seconds: 0.5}\n"
        "run: {when_busy: reject}\nguardrails: [g:one]\nhooks: ['h:two']\nx-notes: &a {}\n"
    )
    assert read.document.problems == ()
    file = read.file
    assert read.root_name == "desk"
    assert file.policy == ChangedPolicy(use="adk")
    assert file.selectors["mine"] == Reference.to("sel:Mine")
    assert file.store == Reference.to("my.store:Store", {"a": 1})
    assert file.artifacts == "files"
    assert (read.run.when_busy, read.run.limits.turns, read.run.limits.attempts) == ("reject", 3, 5)
    assert type(read.run) is RunConfig
    assert file.process == ProcessConfig(lease_seconds=2.0, concurrency=7, recovery_seconds=0.5)
    assert file.guardrails == ("g:one",)
    assert file.hooks == (Reference.to("h:two"),)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("agent: []", "3: This file has no key 'agent'. Did you mean 'agents'?"),
        ("policy: 3", "3: 'policy' should be a policy's name or keys and values, but is a number."),
        ("store: 3", "3: 'store' should be text, but is a number. Put it in quotes."),
        ("store:", "3: 'store' is empty. Write a value, or remove the line."),
        ("encoder: 3", "3: 'encoder' should be text, but is a number. Put it in quotes."),
        ("encoder: {url: 'https://x/v1'}", "3: An encoder needs 'model'. Write a folder,"),
        ("encoder: {url: u, model: m, keys: k}", "3: An encoder has no key 'keys'. Did you mean 'key'?"),
        ("encoder: {url: u, model: 4}", "3: 'model' should be text, but is a number. Put it in quotes."),
        ("encoder: {import: 'a:b', url: u}", "3: An import path has no key 'url'."),
        ("store: {url: x}", "3: Here an import path was expected."),
        ("store: {import: a:b, option: {}}", "3: An import path has no key 'option'."),
        ("store: {import: a:b, options: 3}", "3: 'options' should be keys and values, but is a number."),
        ("artifacts: [x]", "3: 'artifacts' should be text, but is a list."),
        ("limits: {turn: 3}", "3: There is no key 'turn' here. Did you mean 'turns'?"),
        ("limits: 3", "3: 'limits' should be keys and values, but is a number."),
        ("run: {deadline_seconds: soon}", "3: 'deadline_seconds' should be a number, but is text."),
        ("process: 3", "3: 'process' should be keys and values, but is a number. Write them below `process:`."),
        ("process: {lease_second: 3}", "3: There is no key 'lease_second' here. Did you mean 'lease_seconds'?"),
        ("proces: {}", "3: This file has no key 'proces'. Did you mean 'process'?"),
        ("process: {concurrency: 0}", "3: 'concurrency' should be greater than or equal to 1."),
        ("process: {concurrency: 1.5}", "3: 'concurrency' should be a whole number"),
        ("process: {recovery_seconds: often}", "3: 'recovery_seconds' should be a number, but is text."),
        ("process: {lease_seconds: 0}", "3: 'lease_seconds' should be greater than 0."),
        ("process: {lease_seconds: .inf}", "3: 'lease_seconds' should be a finite number."),
        ("run: {limits: {}}", "3: Limits belong at the top of the file, not below 'run'."),
        ("selectors: {mine: 3}", "3: Here an import path was expected."),
        ("hooks: h:one", "3: 'hooks' should be a list, but is text."),
        ("guardrails: [3]", "3: Here an import path was expected."),
    ],
)
def test_a_mistake_names_its_line_the_cause_and_the_fix(line: str, problem: str) -> None:
    (found,) = problems(f"app: shop\nroot: agents:desk\n{line}\n")
    assert found.startswith(problem)


def test_an_app_needs_a_name() -> None:
    assert problems("root: agents:desk\n")[0].startswith("1: The key 'app' is missing.")
    assert problems("app: ' '\nroot: agents:desk\n")[0].startswith("1: 'app' is empty.")
    assert problems("app: 12\nroot: agents:desk\n")[0].startswith("1: 'app' should be text, but is a number.")


def test_all_mistakes_are_collected_in_the_order_of_the_file() -> None:
    found = problems("app: 1\nroot: agents:desk\nlimits: {turns: x}\nstor: y\nrun: {when_busy: z}\n")
    assert [text[0] for text in found] == ["1", "3", "4", "5"]


def test_the_file_is_found_here_or_above(here: Path) -> None:
    (here / "turnwise.yaml").write_text("")
    below = here / "a" / "b"
    below.mkdir(parents=True)
    assert find_file(None, below) == here / "turnwise.yaml"
    assert find_file(here) == here / "turnwise.yaml"
    assert find_file(here / "turnwise.yaml") == here / "turnwise.yaml"


def test_a_missing_file_is_named(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no turnwise.yaml here or in a folder above\. Make a project"):
        find_file(None, here / "nowhere")
    with pytest.raises(ConfigError, match=r"^other\.yaml does not exist\. Check the path"):
        find_file(Path("other.yaml"))


def test_an_encoder_is_a_folder_an_endpoint_or_ones_own() -> None:
    base = "app: shop\nroot: agents:desk\n"
    assert settings(base).file.encoder is None
    assert settings(base + "encoder: ./model\n").file.encoder == "./model"
    own = settings(base + "encoder: {import: 'a:b', options: {x: 1}}\n").file.encoder
    assert own == Reference.to("a:b", {"x": 1})
    endpoint = settings(base + "encoder: {url: 'https://x/v1', model: m, key: '${NONE:-secret}'}\n")
    assert endpoint.document.problems == ()
    assert endpoint.file.encoder == EndpointEncoderSection(url="https://x/v1", model="m", key="secret")
