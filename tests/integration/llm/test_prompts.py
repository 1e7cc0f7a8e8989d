"""What the model is told: instructions with what the state holds, and the conversation as this agent saw it."""

import asyncio
from collections.abc import Callable
from typing import Any

from llm_play import heard
from runner_play import ask, kill, reason, texts

from turnwise import AgentContext, Content, Runner, agent
from turnwise.agents.llm import LlmAgent
from turnwise.facts.content import DataPart
from turnwise.ports.model import ModelRequest
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.testing.models import FunctionModel, ScriptedModel, calls
from turnwise.tools.built_in import ask_user
from turnwise.transcript.view import Budget

Process = Callable[..., Runner]


async def test_instructions_hold_what_the_state_holds(process: Process) -> None:
    """A24: of every scope; what is filled in is data."""

    @agent(name="clerk")
    async def sets(context: AgentContext) -> str:
        for name, value in {"user:name": "Ada {shop}", "app:shop": "Tea & Co", "n": 3, "list": ["ä"]}.items():
            context.state[name] = value
        return "set"

    await ask(process(sets), "hi")
    model = ScriptedModel("Hello.")
    text = 'You serve {user:name} at {app:shop}: {n}, {list}, [{nick?}] {{n}} {"json": {"x": 1}} {}.'
    await ask(process(LlmAgent("clerk", model=model, instructions=text)), "hi")
    expected = 'You serve Ada {shop} at Tea & Co: 3, ["ä"], [] {n} {"json": {"x": 1}} {}.'
    assert model.requests[0].instructions == expected


async def test_a_key_that_is_missing_fails_by_its_name(process: Process) -> None:
    model = ScriptedModel("Hello.")
    result = await ask(process(LlmAgent("clerk", model=model, instructions="You serve {user:name}.")), "hi")
    assert (reason(result), result.error and result.error.code) == ("failed", "agent.failed")
    assert result.error is not None
    assert "'user:name'" in result.error.message
    assert "{user:name?}" in result.error.message
    assert model.requests == []


async def test_instructions_hold_the_text_of_artifacts(process: Process) -> None:
    """A28: the newest version, of the session and of the user; one that is missing, or is no text, fails by its name."""

    @agent(name="clerk")
    async def saves(context: AgentContext) -> str:
        await context.artifacts.save("brief.md", "Be loud.")
        await context.artifacts.save("brief.md", "Be kind, {user:name}.")
        await context.artifacts.save("user:style.txt", "Ümlauts.")
        await context.artifacts.save("logo.png", b"\x89PNG\xff", mime_type="image/png")
        return "saved"

    store = InMemoryArtifactStore()
    await ask(process(saves, artifacts=store), "hi")
    model = ScriptedModel("Hello.")
    text = "{artifact.brief.md} {artifact.user:style.txt} [{artifact.none.md?}] {{artifact.brief.md}}"
    await ask(process(LlmAgent("clerk", model=model, instructions=text), artifacts=store), "hi")
    assert model.requests[0].instructions == "Be kind, {user:name}. Ümlauts. [] {artifact.brief.md}"
    for text, words in (
        ("{artifact.none.md}", "'none.md', which does not exist"),
        ("{artifact.logo.png}", "'logo.png', which is no"),
    ):
        result = await ask(process(LlmAgent("clerk", model=model, instructions=text), artifacts=store), "hi")
        assert (reason(result), result.error and result.error.code) == ("failed", "agent.failed")
        assert result.error is not None
        assert words in result.error.message
    assert len(model.requests) == 1
    result = await ask(process(LlmAgent("clerk", model=model, instructions="{artifact.brief.md}")), "hi")
    assert result.error is not None
    assert "no artifact store" in result.error.message


async def test_instructions_may_be_a_function_of_the_turn(process: Process) -> None:
    """Sync or async; its text is taken as it is, and it is not called again when the turn is."""
    called: list[str] = []

    def sync(context: AgentContext) -> str:
        called.append("sync")
        return f"You are {context.card.name}. {{n}}"

    async def later(context: AgentContext) -> str:
        called.append("async")
        return f"You hear {context.message.text}."

    for function, text in ((sync, "You are clerk. {n}"), (later, "You hear hi.")):
        model = ScriptedModel("Hello.")
        await ask(process(LlmAgent("clerk", model=model, instructions=function)), "hi")
        assert model.requests[0].instructions == text
    assert called == ["sync", "async"]


async def test_instructions_that_are_no_text_fail(process: Process) -> None:
    def none(context: AgentContext) -> Any:
        return None

    result = await ask(process(LlmAgent("clerk", model=ScriptedModel("x"), instructions=none)), "hi")
    assert result.error is not None
    assert "NoneType" in result.error.message


async def test_settings_and_tools_are_passed_on(process: Process) -> None:
    def look(what: str) -> str:
        """Looks.

        Args:
            what: where to
        """
        return what

    model = ScriptedModel("Hello.")
    await ask(process(LlmAgent("clerk", model=model, settings={"temperature": 0.0}, tools=[look])), "hi")
    (request,) = model.requests
    assert (request.settings, request.choice) == ({"temperature": 0.0}, "auto")
    assert [(spec.name, spec.description) for spec in request.tools] == [("look", "Looks.")]


async def test_the_conversation_goes_on(process: Process) -> None:
    model = ScriptedModel("Hello Ada.", "You are Ada.")
    worker = LlmAgent("clerk", model=model)
    await ask(process(worker), "I am Ada")
    await ask(process(worker), "who am I?")
    assert heard(model.requests[1]) == [("user", "I am Ada"), ("agent", "Hello Ada."), ("user", "who am I?")]


async def test_every_step_sees_what_came_in_between(process: Process) -> None:
    """Also what a long tool said in many events, and more of them than one page."""

    async def talk(context: AgentContext) -> str:
        for n in range(60):
            await context.say(f"line {n}")
        return "talked"

    model = ScriptedModel(calls("talk"), "Done.")
    await ask(process(LlmAgent("clerk", model=model, tools=[talk])), "go")
    last = model.requests[1].messages
    assert [part.result for part in last[-1].tool_results] == ["talked"]
    assert "line 0" in last[-2].text
    assert "line 59" in last[-2].text


async def test_as_much_as_fits_is_read_and_no_more(process: Process) -> None:
    """D9: the log is read backwards until enough is there."""
    model = FunctionModel(lambda _: "x" * 300)
    runner = process(LlmAgent("clerk", model=model))
    for n in range(30):
        await ask(runner, f"message {n}")
    reads: list[int] = []
    inner = process(LlmAgent("clerk", model=model)).store

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        async def events(self, *arguments: Any, **options: Any) -> Any:
            events = await inner.events(*arguments, **options)
            reads.append(len(events))
            return events

    last = ScriptedModel("Hello.")
    worker = LlmAgent("clerk", model=last, history=Budget(tokens=600, events=100))
    await ask(process(worker, store=Counting()), "the last")
    assert sum(reads) <= 40
    texts_ = [text for _, text in heard(last.requests[0])]
    assert "the last" in texts_[-1]
    assert len(texts_) < 15


async def test_a_called_agent_is_asked_by_its_caller(process: Process) -> None:
    model = ScriptedModel("42.")
    helper = LlmAgent("helper", model=model)

    @agent(children=[helper])
    async def front(context: AgentContext) -> str:
        return (await context.call("helper", Content(parts=(DataPart(data={"n": 6}),)))).text

    assert (await ask(process(front), "go")).text == "42."
    assert '{"n":6}' in model.requests[0].messages[-1].text


async def test_a_turn_that_is_taken_up_asks_for_no_summary(process: Process) -> None:
    """Nothing is compiled when the model is not asked."""
    model = ScriptedModel(calls("ask_user", {"question": "Name?"}), "Hello Ada.")
    seen: list[str] = []

    def instructions(context: AgentContext) -> str:
        seen.append("asked")
        return ""

    worker = LlmAgent("clerk", model=model, instructions=instructions, tools=[ask_user])
    await ask(process(worker), "hi")
    await ask(process(worker), "Ada")
    assert seen == ["asked", "asked"]
    assert await texts(process(worker)) == ["hi", "Name?", "Ada", "Hello Ada."]


async def test_a_kill_between_two_turns_of_two_agents_asks_only_the_second_again(process: Process) -> None:
    """Decision 6: only the open turn is run again."""
    began = asyncio.Event()
    stuck = [True]

    async def reply(request: ModelRequest) -> str:
        began.set()
        if stuck:
            stuck.clear()
            await asyncio.Event().wait()
        return "Bill."

    class Reached:
        reached = began

    front = ScriptedModel(calls("transfer_to_agent", {"agent": "billing"}))
    root = LlmAgent("front", model=front, children=[LlmAgent("billing", model=FunctionModel(reply))])
    await kill(process, root, Reached(), "hi")  # type: ignore[arg-type]
    alive = process(root)
    await alive.recover()
    assert await texts(alive) == ["hi", "Bill."]
    assert len(front.requests) == 1
