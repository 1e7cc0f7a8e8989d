"""What an agent's exception leaves: a record without secrets, the exception itself in process, a session that goes on."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from inspect import isawaitable
from typing import Any

import pytest
from runner_play import ask, log, reason

from turnwise import AgentContext, BlobPart, Parallel, PolicySpec, Runner, Sequential, TextPart, agent
from turnwise.facts.content import Content, ToolCallPart, ToolResultPart
from turnwise.facts.errors import ArtifactName, MessageBlocked
from turnwise.facts.events import Event
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import SessionKey
from turnwise.guardrails.secrets import Secrets
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.ports.selector import SelectionRequest
from turnwise.stores.artifacts.local import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]
KEY = "sk-abcdEFGH1234ijklMNOP5678"


async def test_the_exception_itself_is_in_the_result(make_runner: MakeRunner) -> None:
    @agent
    def clerk() -> str:
        drawers: dict[str, str] = {}
        return drawers["drawer"]

    result = await ask(make_runner(clerk), "hi")
    assert isinstance(result.exception, KeyError)
    assert result.exception.__traceback__ is not None
    assert result.error is not None

    @agent
    def fine() -> str:
        return "fine"

    assert (await ask(make_runner(fine), "hi")).exception is None


@pytest.mark.parametrize("name", ["sya", "Say", "messages"])
async def test_a_misspelled_name_of_the_context_is_told_in_the_developers_words(make_runner: MakeRunner, name: str) -> None:
    @agent
    async def clerk(context: AgentContext) -> Any:
        return getattr(context, name)

    result = await ask(make_runner(clerk), "hi")
    assert result.error is not None
    assert result.error.message == f"Agent 'clerk' raised AttributeError: The agent's context has no attribute '{name}'."


@pytest.mark.parametrize(
    ("misuse", "told"),
    [
        (lambda context: context.history.lst, "context.history has no attribute 'lst'."),
        (lambda context: context.state.name, "context.state has no attribute 'name'. Read context.state['name']."),
        (lambda context: context.artifacts.sav, "context.artifacts has no attribute 'sav'."),
        (lambda context: context.say(), "context.say() missing 1 required positional argument: 'content'"),
        (lambda context: context.event("x", "y"), "context.event() takes from 1 to 2 positional arguments but 3 were given"),
        (lambda context: context.state.get(), "context.state.get() missing 1 required positional argument: 'key'"),
        (lambda context: context.history.last(cnt=1), "context.history.last() got an unexpected keyword argument 'cnt'"),
        (lambda context: context.artifacts.load(), "context.artifacts.load() missing 1 required positional argument: 'name'"),
    ],
)
async def test_python_names_what_the_developer_wrote(
    make_runner: MakeRunner, misuse: Callable[[Any], Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Classes of ours are named nowhere; the log has the developer's own line."""

    @agent
    async def clerk(context: AgentContext) -> Any:
        return misuse(context)

    result = await ask(make_runner(clerk), "hi")
    assert result.error is not None
    assert result.error.message.endswith(told)
    assert f"{__file__}:" in caplog.records[-1].getMessage()


async def test_a_misuse_that_we_find_is_logged_once(make_runner: MakeRunner, caplog: pytest.LogCaptureFixture) -> None:
    """However many agents it ends on its way up."""

    @agent(name="clerk")
    async def clerk(context: AgentContext) -> Any:
        context.state["k"] = object()

    result = await ask(make_runner(Sequential("outer", [Sequential("inner", [clerk])])), "hi")
    assert result.error is not None
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.partition(" at ")[0] for line in errors] == ["Agent 'clerk' failed (agent.failed)"]
    assert f"{__file__}:" in errors[0]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
async def test_what_an_exception_quotes_passes_the_guardrails(make_runner: MakeRunner, error: type[BaseException]) -> None:
    """C13: nothing of it is in the log, neither in the error nor in the end."""

    @agent
    def clerk(message: str) -> str:
        if message == "again":
            return "fine"
        raise error(f"cannot log in with {KEY}")

    runner = make_runner(clerk, guardrails=[Secrets()])
    result = await ask(runner, "hi")
    assert reason(result) == "failed"
    assert result.error is not None
    assert f"raised {error.__name__}: cannot log in with [key]" in result.error.message
    assert KEY not in json.dumps([event.model_dump(mode="json") for event in result.events])
    assert (await ask(runner, "again")).text == "fine"


async def test_an_error_that_a_guardrail_blocks_is_withheld(make_runner: MakeRunner) -> None:
    @agent
    def clerk() -> str:
        raise ValueError(KEY)

    result = await ask(make_runner(clerk, guardrails=[Secrets(action="block")]), "hi")
    assert result.error is not None
    assert result.error.message == "Agent 'clerk' failed; what the error says is withheld."
    assert KEY not in json.dumps([event.model_dump(mode="json") for event in result.events])


async def test_names_of_artifacts_pass_the_guardrails(make_runner: MakeRunner) -> None:
    """C13: they stand in the log."""
    told: list[str] = []

    @agent
    async def clerk(context: AgentContext) -> str:
        try:
            await context.artifacts.save(f"{KEY}.txt", b"x")
        except ArtifactName as problem:
            told.append(str(problem))
        await context.artifacts.save("fine.txt", b"x")
        return "saved"

    runner = make_runner(clerk, guardrails=[Secrets()], artifacts=InMemoryArtifactStore())
    result = await ask(runner, "hi")
    assert told == ["A guardrail does not let the artifact's name into the log. Choose another name."]
    assert [text for _, text in await log(runner)][-1] == "saved"
    assert KEY not in json.dumps([event.model_dump(mode="json") for event in result.events])


@pytest.mark.parametrize(
    ("data", "stored", "mime_type"),
    [
        ("naïve", "naïve".encode(), "text/plain; charset=utf-8"),
        (b"x", b"x", "application/octet-stream"),
        (bytearray(b"x"), b"x", "application/octet-stream"),
        (TextPart(text="x"), b"x", "text/plain; charset=utf-8"),
        (BlobPart(data=b"x", mime_type="image/png"), b"x", "image/png"),
    ],
)
async def test_an_artifact_is_text_bytes_or_a_part(make_runner: MakeRunner, data: Any, stored: bytes, mime_type: str) -> None:
    @agent
    async def clerk(context: AgentContext) -> str:
        await context.artifacts.save("a", data)
        found = await context.artifacts.load("a")
        assert found is not None
        return f"{found.data!r} {found.info.mime_type}"

    runner = make_runner(clerk, artifacts=InMemoryArtifactStore())
    assert (await ask(runner, "hi")).text == f"{stored!r} {mime_type}"


async def test_something_else_is_no_artifact(make_runner: MakeRunner) -> None:
    @agent
    async def clerk(context: AgentContext) -> None:
        await context.artifacts.save("a", {"a": 1})  # type: ignore[arg-type]

    result = await ask(make_runner(clerk, artifacts=InMemoryArtifactStore()), "hi")
    assert result.error is not None
    assert "The artifact 'a' is a dict. Save text, bytes, a TextPart or a BlobPart." in result.error.message


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("nested", [False, True])
async def test_data_that_json_cannot_write_is_refused(make_runner: MakeRunner, number: float, nested: bool) -> None:
    """It would be read back as something else, or not at all."""

    @agent
    def clerk(message: str) -> Any:
        return "fine" if message == "again" else {"a": [number]} if nested else {"a": number}

    runner = make_runner(clerk)
    result = await ask(runner, "hi")
    assert result.error is not None
    assert result.error.message == "'clerk' emitted data with NaN or an infinite number, which JSON cannot write."
    assert (await ask(runner, "again")).text == "fine"


def call_of(number: float) -> Content:
    return Content(role="agent", parts=(ToolCallPart(call_id="c", tool="t", arguments={"a": number}),))


def result_of(number: float) -> Content:
    call = ToolCallPart(call_id="c", tool="t", arguments={})
    return Content(role="agent", parts=(call, ToolResultPart(call_id="c", tool="t", result=[number])))


async def ask_with(context: AgentContext, number: float) -> str:
    return (await context.ask("Which?", tool="t", arguments={"a": {"b": number}})).text


async def write_state(context: AgentContext, number: float) -> str:
    context.state["k"] = [number]
    return "written"


async def work(context: AgentContext, number: float) -> str:
    return str(await context.step("work", lambda: number))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "act",
    [
        lambda context, number: context.event("x", state_delta={"k": number}),
        lambda context, number: context.event("x", state_delta={"k": {"deep": [number]}}),
        lambda context, number: context.event("x", state_delta={"temp:k": number}),
        lambda context, number: context.say(call_of(number)),
        lambda context, number: context.say(result_of(number)),
        ask_with,
        write_state,
        work,
    ],
)
async def test_numbers_that_json_cannot_write_are_refused_everywhere(
    make_runner: MakeRunner, act: Callable[..., Any], number: float
) -> None:
    @agent
    async def clerk(context: AgentContext, message: str) -> Any:
        if message == "again":
            return "fine"
        given = act(context, number)
        return await given if isawaitable(given) else given

    runner = make_runner(clerk)
    result = await ask(runner, "hi")
    assert reason(result) == "failed"
    assert result.error is not None
    assert result.error.code == "agent.failed"
    assert "JSON" in result.error.message
    stored = await runner.store.events(runner.key("ada", "s"))
    json.dumps([event.model_dump(mode="json") for event in stored], allow_nan=False)
    assert (await ask(runner, "again")).text == "fine"


RAISED = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration, StopAsyncIteration]


def first_time(error: type[BaseException]) -> Callable[[], None]:
    """Raises the error at the first call only."""
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise error("boom")

    return call


def styles(fails: Callable[[], None]) -> dict[str, Any]:
    def returns() -> str:
        fails()
        return "fine"

    async def awaits() -> str:
        fails()
        return "fine"

    def yields() -> Iterator[str]:
        fails()
        yield "fine"

    async def awaits_and_yields() -> AsyncIterator[str]:
        fails()
        yield "fine"

    return {function.__name__: agent(name="clerk")(function) for function in (returns, awaits, yields, awaits_and_yields)}


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("style", ["returns", "awaits", "yields", "awaits_and_yields"])
@pytest.mark.parametrize("place", ["alone", "sequential", "parallel", "called"])
async def test_whatever_an_agent_raises_ends_only_its_turn(
    make_runner: MakeRunner, style: str, place: str, error: type[BaseException]
) -> None:
    """A26"""
    clerk = styles(first_time(error))[style]

    @agent(children=[clerk] if place == "called" else ())
    async def caller(context: AgentContext) -> str:
        return (await context.call("clerk", "hi")).text

    roots = {"alone": clerk, "called": caller}
    if place in {"sequential", "parallel"}:
        roots[place] = (Sequential if place == "sequential" else Parallel)("both", [clerk])
    runner = make_runner(roots[place])
    result = await ask(runner, "hi")
    assert reason(result) == "failed"
    assert result.error is not None
    assert result.error.message.startswith("Agent 'clerk' raised ")
    assert (await ask(runner, "again")).text == "fine"


@agent
def fine() -> str:
    return "fine"


class Hook:
    def __init__(self, fails: Callable[[], None]) -> None:
        self._fails = fails
        self.ends: list[str] = []

    async def selected(self, key: SessionKey, selection: Selection) -> None:
        self._fails()

    def stored(self, key: SessionKey, event: Event) -> None:
        """Is not async, which costs nobody anything."""

    async def ended(self, key: SessionKey, invocation_id: str, reason: str) -> None:
        self.ends.append(reason)


@pytest.mark.parametrize("error", RAISED)
async def test_whatever_a_hook_raises_is_logged(
    make_runner: MakeRunner, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """It is told all that comes."""
    hook = Hook(first_time(error))
    runner = make_runner(fine, hooks=[hook])
    assert [(await ask(runner, text)).text for text in ("hi", "again")] == ["fine", "fine"]
    assert hook.ends == ["completed", "completed"]
    assert "A hook raised." in caplog.text


class Guard:
    name, reach = "guard", 0

    def __init__(self, fails: Callable[[], None]) -> None:
        self._fails = fails

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        self._fails()
        return ALLOW


@pytest.mark.parametrize("error", RAISED)
async def test_whatever_a_guardrail_raises_blocks(make_runner: MakeRunner, error: type[BaseException]) -> None:
    """C13"""
    runner = make_runner(fine, guardrails=[Guard(first_time(error))])
    with pytest.raises(MessageBlocked):
        await ask(runner, "hi")
    assert (await ask(runner, "again")).text == "fine"


class Chooses:
    name = "mine"

    def __init__(self, fails: Callable[[], None]) -> None:
        self._fails = fails

    async def select(self, request: SelectionRequest) -> Verdict:
        self._fails()
        return Verdict(selector="mine", outcome="abstained", reason="Nobody comes to mind.")


@pytest.mark.parametrize("error", RAISED)
async def test_whatever_a_selector_raises_is_an_abstention(make_runner: MakeRunner, error: type[BaseException]) -> None:
    """An exception of a hook is no exception of the turn."""
    policy = PolicySpec.model_validate({"stages": [{"selector": "mine"}]}, strict=False)
    runner = make_runner(fine, policy=policy, custom_selectors={"mine": lambda _tree: Chooses(first_time(error))})
    first = await ask(runner, "hi")
    assert first.text == "fine"
    assert first.selection is not None
    assert "It raised" in first.selection.verdicts[0].reason
    assert (await ask(runner, "again")).text == "fine"
