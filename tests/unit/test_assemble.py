"""From a configuration file to a running app, and everything that can be wrong on the way."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from config_play import line_only, module_in

from turnwise.assemble import App, Report, check_app, load_app
from turnwise.facts.errors import ConfigError, ImportPathError, TurnwiseError
from turnwise.facts.limits import ProcessConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore, OnDiskArtifactStore
from turnwise.stores.artifacts.objects import ObjectArtifactStore
from turnwise.testing.fakes import RecordingHooks

AGENTS = '''
from turnwise import agent, Selection
from turnwise.ports.guardrail import ALLOW
from turnwise.selection.verdicts import abstained, chosen
from turnwise.stores.sql import SqlSessionStore

@agent(description="Greets.")
def desk(message):
    return f"desk: {message}"

@agent(patterns=[r"\\border\\b"])
def orders(message):
    return f"orders: {message}"

def refunds(message):
    """Gives money back."""
    return f"refunds: {message}"

class Store(SqlSessionStore):
    def __init__(self, *, name):
        super().__init__("sqlite://")
        self.given = name

class Always:
    def __init__(self, tree, *, agent):
        self.name, self._agent = "always", agent
    async def select(self, request):
        return chosen("always", self._agent, method="always", confidence=1.0, reason="It always does.")

class Watch:
    async def selected(self, key, selection): ...
    async def stored(self, key, event): ...
    async def ended(self, key, invocation_id, reason): ...

class Guard:
    name = "guard"
    async def check(self, place, content, agent):
        return ALLOW

def broken_store():
    raise RuntimeError("no disk")

number = 3
'''
Project = Callable[[str], Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """Writes a configuration beside a module of agents, whose name stands for M in the text."""
    monkeypatch.chdir(tmp_path)
    with module_in(tmp_path, AGENTS) as name:

        def write(text: str) -> Path:
            (tmp_path / "turnwise.yaml").write_text(text.replace("M:", f"{name}:"))
            return tmp_path / "turnwise.yaml"

        yield write


LEAST = "app: shop\nroot: M:desk\nstore: 'sqlite://'\n"


async def _answer(app: App, message: str) -> str:
    invocation = await app.runner.start(message, user="ann", session="s")
    return (await invocation.result()).text


async def _closed(app: App) -> App:
    await app.runner.close()
    return app


async def test_an_app_answers(project: Project) -> None:
    app = load_app(project(LEAST + "agents:\n  - M:orders\n  - {name: refunds, run: 'M:refunds', patterns: [refund]}\n"))
    assert await _answer(app, "hello") == "desk: hello"
    assert await _answer(app, "my order") == "orders: my order"
    assert await _answer(app, "refund it") == "refunds: refund it"
    assert app.runner.app == "shop"
    assert app.runner.tree.card("refunds").description == "Gives money back."
    await app.runner.close()


async def test_composites_run_as_they_are_written(project: Project) -> None:
    """A41."""
    text = (
        "app: shop\nstore: 'sqlite://'\nagents:\n  - name: flow\n    kind: sequential\n    children:\n      - M:desk\n"
        "      - {name: us, kind: team, selector: {selector: iterative, options: {order: [orders]}}, children: ['M:orders']}\n"
    )
    app = load_app(project(text))
    assert await _answer(app, "hi") == "desk: hi\norders: hi"
    await app.runner.close()


async def test_the_file_is_found_from_a_folder_below(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(LEAST)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert (await _closed(load_app())).path == path


def test_a_path_is_a_path_or_a_text(tmp_path: Path) -> None:
    """Of the file or of its folder."""
    (tmp_path / "turnwise.yaml").write_text("agents: {}\n")
    for path in (tmp_path, tmp_path / "turnwise.yaml", tmp_path / "missing.yaml"):
        outcomes = []
        for given in (path, str(path)):
            with pytest.raises(ConfigError) as refused:
                load_app(given)
            outcomes.append(
                (str(refused.value), [problem.code for problem in check_app(given).errors] if path.exists() else [])
            )
        assert outcomes[0] == outcomes[1]


async def test_relative_places_are_beside_the_file(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project("app: shop\nroot: M:desk\nartifacts: files\n")
    monkeypatch.chdir("/")
    app = load_app(path)
    await _answer(app, "hello")
    assert isinstance(app.runner.artifacts, OnDiskArtifactStore)
    await app.runner.artifacts.save(app.runner.key("ann", "s"), "a.txt", b"x")
    await app.runner.close()
    assert (tmp_path / "turnwise.db").is_file()
    assert any((tmp_path / "files").rglob("data"))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("artifacts: in_memory", InMemoryArtifactStore),
        ("artifacts: ./memory", OnDiskArtifactStore),
        ("artifacts: memory://", ObjectArtifactStore),
        ("", type(None)),
    ],
)
async def test_kinds_of_artifact_stores(project: Project, line: str, kind: type) -> None:
    app = await _closed(load_app(project(LEAST + line)))
    assert isinstance(app.runner.artifacts, kind)


async def test_stores_and_watchers_of_ones_own(project: Project) -> None:
    text = (
        "app: shop\nroot: M:desk\nstore: {import: 'M:Store', options: {name: mine}}\n"
        "guardrails: ['M:Guard']\nhooks: ['M:Watch']\n"
    )
    app = load_app(project(text))
    assert getattr(app.runner.store, "given", None) == "mine"
    assert await _answer(app, "hello") == "desk: hello"
    await app.runner.close()


@pytest.mark.parametrize(
    "text",
    [
        "selectors: {mine: 'M:Always'}\npolicy: {stages: [{selector: mine, options: {agent: orders}}]}\n",
        "selectors: {mine: {import: 'M:Always', options: {agent: orders}}}\npolicy: {stages: [mine]}\n",
        "policy: {stages: [{selector: 'M:Always', options: {agent: orders}}]}\n",
    ],
)
async def test_selectors_of_ones_own(project: Project, text: str) -> None:
    app = load_app(project(LEAST + "agents: ['M:orders']\n" + text))
    assert await _answer(app, "hello") == "orders: hello"
    await app.runner.close()


@pytest.mark.parametrize("written", ["'M:Always'", "{import: 'M:Always', options: {agent: second}}", None])
@pytest.mark.parametrize("lead", ["first", "second"])
async def test_a_team_has_a_selector_of_ones_own(project: Project, written: str | None, lead: str) -> None:
    """B7: by its import path, as in a policy, or under a name; nothing else in the file uses it."""
    named = f"selectors: {{mine: {written}}}\n" if written else ""
    selector = "mine" if written else "'M:Always'"
    options = "" if written and "import" in written else ", options: {agent: second}"
    members = "[{name: first, run: 'M:orders'}, {name: second, run: 'M:orders'}]"
    team = f"{{name: t, kind: team, lead: {lead}, selector: {{selector: {selector}{options}}}, children: {members}}}"
    app = load_app(project(f"app: shop\nstore: 'sqlite://'\nagents: [{team}]\n{named}"))
    result = await (await app.runner.start("hello", user="ada", session="s")).result()
    assert [event.author for event in result.events if event.text] == ["user", "second"]
    await app.runner.close()


async def test_a_caller_may_watch_beside_the_hooks_of_the_file(project: Project) -> None:
    mine = RecordingHooks()
    app = load_app(project(LEAST + "hooks: ['M:Watch']\n"), hooks=[mine])
    await _answer(app, "hello")
    await app.runner.close()
    assert [event.text for event in mine.events] == ["hello", "desk: hello"]


async def test_an_app_knows_its_store_without_the_password(project: Project) -> None:
    path = project(LEAST.replace("'sqlite://'", "postgresql://ann:geheim@db/x"))
    assert (await _closed(load_app(path))).store == "postgresql://ann:***@db/x"


async def test_limits_run_and_process_configuration_reach_the_runner(project: Project) -> None:
    text = "limits: {message_bytes: 10}\nrun: {when_busy: reject}\nprocess: {lease_seconds: 3, concurrency: 2}\n"
    app = await _closed(load_app(project(LEAST + text)))
    assert app.runner.process == ProcessConfig(lease_seconds=3.0, concurrency=2)
    assert app.runner.config.limits.message_bytes == 10
    assert app.runner.config.when_busy == "reject"


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("app: shop\nroot: M:nobody\n", ImportPathError, "turnwise.yaml:2: The module"),
        ("app: shop\nroot: M:desk\nstore: mysql://x\n", ConfigError, "turnwise.yaml:3: "),
        ("app: shop\nroot: M:desk\nartifacts: ftp://x\n", ConfigError, "turnwise.yaml:3: "),
        ("app: shop\nroot: M:desk\nartifacts: s3:/x\n", ConfigError, "turnwise.yaml:3: "),
        ("app: shop\nroot: M:desk\nartifacts: memory\n", ConfigError, "turnwise.yaml:3: 'memory' can mean two things"),
        ("app: shop\nroot: M:desk\nstore: {import: 'M:number'}\n", ConfigError, "turnwise.yaml:3: "),
        ("app: shop\nroot: M:desk\nstore: {import: 'M:Store'}\n", ConfigError, "turnwise.yaml:3: "),
        (
            "app: shop\nroot: M:desk\nstore: {import: 'M:broken_store'}\n",
            ConfigError,
            "raised RuntimeError when it was made: no disk",
        ),
        ("app: shop\nroot: M:desk\nhooks: ['M:Guard']\n", ConfigError, "gives a Guard, which has no 'selected'"),
        ("app: shop\nroot: M:desk\nhooks: [{import: 'M:number', options: {a: 1}}]\n", ConfigError, "it takes no options"),
        ("app: shop\nroot: M:desk\npolicy: {stages: [nope]}\n", ConfigError, "turnwise.yaml:3: Policy 'custom', stage 'nope'"),
        ("app: shop\nroot: M:desk\npolicy: {stages: ['M:Nope']}\n", ConfigError, "has no 'Nope'"),
        (
            "app: shop\nagents:\n  - {name: t, kind: team, selector: 'M:Nope', children: ['M:orders']}\n",
            ConfigError,
            "turnwise.yaml:3: The module",
        ),
        ("app: shop\nroot: M:desk\nselectors: {patterns: 'M:Always'}\n", ConfigError, "is named 'patterns', as a built-in one"),
        (
            "app: shop\nroot: M:desk\npolicy:\n  use: elemental-iterative\n  options:\n    iterative:\n      order:\n"
            "        - desk\n        - nobody\n",
            ConfigError,
            "turnwise.yaml:9: Policy 'elemental-iterative', stage 'iterative', 'order': there is no agent 'nobody'.",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(project: Project, text: str, kind: type[TurnwiseError], problem: str) -> None:
    path = project(text)
    with pytest.raises(kind) as caught:
        load_app(path)
    assert problem in line_only(caught.value)
    assert "turnwise.yaml:" in line_only(caught.value)
    assert "Traceback" not in line_only(caught.value)
    assert [line_only(error)[:60] for error in check_app(path).errors] == [line_only(caught.value)[:60]]


def test_the_first_of_many_mistakes_says_how_many(project: Project) -> None:
    path = project("app: shop\nroot: M:nobody\nstor: x\nlimits: {turns: x}\n")
    with pytest.raises(ConfigError, match=r"Mistakes in all: 3; `turnwise check` shows each"):
        load_app(path)
    assert len(check_app(path).errors) == 3


def checked(project: Project, text: str) -> Report:
    return check_app(project(text))


def test_a_check_tells_what_there_is_and_touches_no_store(project: Project, tmp_path: Path) -> None:
    report = checked(project, "app: shop\nroot: M:desk\nagents: ['M:orders']\nartifacts: files\npolicy: adk\n")
    assert report.errors == ()
    assert report.tree is not None
    assert report.tree.children("desk") == ("orders",)
    assert report.policy.startswith("adk (")
    assert (report.app, report.store, report.artifacts, report.shown) == (
        "shop",
        "sqlite:///turnwise.db",
        "files",
        "turnwise.yaml",
    )
    assert {stage for stage, _ in report.timings} == {"read", "import", "agents", "policy"}
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.name != "__pycache__") == [".py", ".yaml"]


def test_a_check_shows_no_password(project: Project) -> None:
    report = checked(project, "app: shop\nroot: M:desk\nstore: postgresql://ann:geheim@db/x\n")
    assert report.errors == ()
    assert report.store == "postgresql://ann:***@db/x"
    report = checked(project, "app: shop\nroot: M:desk\nstore: postgresql://db/x?user=ann&password=geheim&sslmode=on\n")
    assert report.store == "postgresql://db/x?user=ann&password=***&sslmode=on"


def test_every_refused_pattern_is_told_in_its_line(project: Project) -> None:
    report = checked(
        project,
        "app: shop\nroot: M:desk\nagents:\n  - name: a\n    run: M:refunds\n    patterns:\n      - fine\n      - '(?=x)'\n"
        "  - name: b\n    run: M:refunds\n    patterns:\n      - {regex: '(', active: false}\n      - '['\n",
    )
    assert [(error.code, str(error).split(":")[1]) for error in report.errors] == [
        ("config.pattern", "8"),
        ("config.pattern", "13"),
    ]


def test_a_file_that_is_no_yaml_is_a_report_too(project: Project) -> None:
    report = checked(project, "app: [\n")
    assert [error.code for error in report.errors] == ["config"]
    assert report.tree is None


WORDED = LEAST + "agents:\n  - {name: refunds, run: 'M:refunds', examples: [give me my money back, i want a refund]}\n"


async def test_an_encoder_of_ones_own(project: Project) -> None:
    """Its vectors decide, in every stage that goes by meaning."""
    text = WORDED + "encoder: {import: 'turnwise.testing.fake_encoder:BagOfWordsEncoder'}\npolicy: staples\n"
    app = load_app(project(text))
    meaning = app.runner.cascade.meaning
    assert meaning is not None
    assert meaning.encoder.fingerprint == "bag-of-words-64"
    await app.runner.ready()
    assert await _answer(app, "give me my money back") == "refunds: give me my money back"
    await app.runner.close()


def test_a_folder_that_holds_no_encoder_is_told_with_its_line(project: Project) -> None:
    report = check_app(project(WORDED + "encoder: ./nothing\n"))
    assert len(report.errors) == 1
    assert line_only(report.errors[0]).startswith("turnwise.yaml:6: ")
    assert "nothing" in line_only(report.errors[0])


def test_what_is_no_encoder_is_refused(project: Project) -> None:
    report = check_app(project(WORDED + "encoder: {import: 'M:Guard'}\n"))
    assert "which has no 'encode'" in line_only(report.errors[0])


def test_check_tells_what_is_compared(project: Project) -> None:
    text = WORDED + "encoder: {import: 'turnwise.testing.fake_encoder:BagOfWordsEncoder'}\npolicy: staples\n"
    report = check_app(project(text))
    assert report.errors == ()
    assert report.encoder == "bag-of-words-64"
    assert report.phrases >= 3
    assert "fit" in dict(report.timings)


def test_check_prepares_nothing_that_is_not_needed(project: Project) -> None:
    report = check_app(project(WORDED + "policy: adk\n"))
    assert (report.phrases, report.encoder, "fit" in dict(report.timings)) == (0, "", False)


def test_what_an_encoder_raises_is_in_the_report(project: Project, tmp_path: Path) -> None:
    (tmp_path / "tw_away.py").write_text(
        "from turnwise.facts.errors import EncoderError\n\n\n"
        "class Away:\n    fingerprint, dimensions, is_local = 'away', 4, True\n\n"
        "    def encode(self, texts):\n        raise EncoderError('The encoder is away.')\n"
    )
    report = check_app(project(WORDED + "encoder: {import: 'tw_away:Away'}\npolicy: staples\n"))
    assert [line_only(error) for error in report.errors] == ["turnwise.yaml:6: The encoder is away."]


def test_models_are_told_by_name_and_their_keys_by_nobody(project: Project) -> None:
    """Agents of the file, and those of code behind it; keys stand in the file only."""
    report = check_app(
        project(
            "app: a\nagents:\n  - name: a\n    kind: llm\n"
            "    model: [openai:gpt-5, {model: m, url: 'http://h/v1', key: sk-very}]\n"
            "    children: ['M:orders']\nguardrails: [secrets, {use: length, message: 9}]\n"
            "policy: {use: default-with-model, options: {model: {model: {model: m, url: 'http://h/v1', key: sk-very}}}}\n"
        )
    )
    assert report.errors == ()
    assert report.models == {"a": "openai:gpt-5, h:m"}
    assert "sk-very" not in repr(report)


async def test_guardrails_that_are_shipped_stand_before_the_agents(project: Project) -> None:
    """C13."""
    app = load_app(project("app: a\nroot: M:desk\nstore: 'sqlite://'\nguardrails: [personal_data]\n"))
    result = await (await app.runner.start("I am ada@example.com", user="u", session="s")).result()
    await app.runner.close()
    assert result.text == "desk: I am [e-mail]"


def test_mistakes_of_guardrails_are_told_with_the_others(project: Project) -> None:
    report = check_app(project("app: a\nroot: M:nobody\nguardrails:\n  - lenght\n  - use: length\n    message: no\n"))
    assert [line_only(error).split(":")[1] for error in report.errors] == ["2", "4", "6"]
