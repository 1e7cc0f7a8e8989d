"""A clarifying question and its answer, through the runner (E5)."""

from collections.abc import Callable

import pytest
from runner_play import ask, key, log

from turnwise import AgentContext, MessageContext, PolicySpec, Runner, agent
from turnwise.facts.content import DataPart
from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.runner import Result
from turnwise.selection.policy import policy_from

MakeRunner = Callable[..., Runner]


class Torn:
    """Ranks two agents alike when the message says `thing`."""

    def __init__(self, tree: AgentTree) -> None:
        self.name = "torn"

    async def select(self, request: SelectionRequest) -> Verdict:
        both = tuple(Candidate(agent=name, score=0.4) for name in ("orders", "returns"))
        return Verdict(selector=self.name, reason="Torn.", candidates=both if "thing" in request.text else ())


POLICY: PolicySpec = policy_from(
    {
        "stages": [
            "direct",
            {"selector": "clarify", "options": {"only": "answer"}, "name": "choice"},
            "torn",
            "clarify",
            "resume",
        ]
    }
)


@agent(description="Tells where an order is. And more.")
async def orders(message: str, context: AgentContext) -> str:
    if "ask" in message:
        reply = await context.ask("Which order?")
        return f"orders asked because of {message!r} and got {reply.text!r}"
    return f"orders got {message!r}"


@agent(description="Takes things back.")
async def returns(message: str) -> str:
    return f"returns got {message!r}"


@agent(children=[orders, returns])
async def desk(message: str) -> str:
    return f"desk got {message!r}"


@pytest.fixture
def runner(make_runner: MakeRunner) -> Runner:
    return make_runner(desk, policy=POLICY, custom_selectors={"torn": Torn})


def method(result: Result) -> str:
    return result.selection.method if result.selection else ""


async def test_the_user_is_offered_choices_as_text_and_as_data(runner: Runner) -> None:
    """E5: ranked; the default agent asks; the invocation is over, and the session usable."""
    result = await ask(runner, "this thing of mine")
    assert result.text == "Did you mean:\n1. Orders – Tells where an order is\n2. Returns – Takes things back"
    assert (result.end.reason if result.end else "", method(result)) == ("clarify", "clarify")
    event = result.events[-1]
    assert event.author == "desk"
    assert event.content is not None
    assert [part.data for part in event.content.parts if isinstance(part, DataPart)] == [
        [
            {"agent": "orders", "label": "Orders", "description": "Tells where an order is"},
            {"agent": "returns", "label": "Returns", "description": "Takes things back"},
        ]
    ]
    assert (await runner.sessions.get(key())).head.offered == ("orders", "returns")


@pytest.mark.parametrize("choice", ["2", "the second one", "returns please"])
async def test_who_is_chosen_gets_what_was_asked(runner: Runner, choice: str) -> None:
    """E5: the choice says who, the message before it says what; the log keeps what the user wrote."""
    await ask(runner, "this thing of mine")
    result = await ask(runner, choice)
    assert (result.text, method(result)) == ("returns got 'this thing of mine'", "clarified")
    assert [text for author, text in await log(runner) if author == "user"] == ["this thing of mine", choice]
    after = await ask(runner, "and now?")
    assert (after.text, method(after)) == ("returns got 'and now?'", "resume")


async def test_neither_goes_back_to_who_asked(runner: Runner) -> None:
    """E5"""
    await ask(runner, "this thing of mine")
    result = await ask(runner, "neither")
    assert (result.text, method(result)) == ("desk got 'this thing of mine'", "clarify_declined")


async def test_what_is_no_choice_is_a_message_as_any_other(runner: Runner) -> None:
    """E5: and it is not asked twice in a row, but again later."""
    await ask(runner, "this thing of mine")
    other = await ask(runner, "good morning")
    assert (other.text, method(other)) == ("desk got 'good morning'", "resume")
    await ask(runner, "this thing of mine")
    other = await ask(runner, "good morning, my thing")
    assert (other.text, method(other)) == ("orders got 'good morning, my thing'", "clarify_skipped")
    await ask(runner, "good morning", context=MessageContext(direct_agent_id="desk"))
    assert method(await ask(runner, "that thing")) == "clarify"


async def test_a_number_long_after_is_no_choice(runner: Runner) -> None:
    """E5: only the answer right after the question counts."""
    await ask(runner, "this thing of mine")
    await ask(runner, "1")
    assert (await ask(runner, "2")).text == "orders got '2'"


async def test_the_agent_asks_in_its_turn_and_keeps_what_it_was_told(runner: Runner) -> None:
    """E5, A42: what it was told is on record, so a turn that is taken up again has it too."""
    await ask(runner, "ask about a thing")
    assert (await ask(runner, "orders")).text == "Which order?"
    assert (await ask(runner, "A-1")).text == "orders asked because of 'ask about a thing' and got 'A-1'"


async def test_one_who_waits_and_is_chosen_gets_the_request_as_the_reply(runner: Runner) -> None:
    """E5, A42: "1" would be taken for what it asked."""
    asked = await ask(runner, "please ask", context=MessageContext(direct_agent_id="orders"))
    assert asked.waiting
    await ask(runner, "hello", context=MessageContext(direct_agent_id="desk"))
    assert method(await ask(runner, "this thing of mine")) == "clarify"
    assert (await ask(runner, "1")).text == "orders asked because of 'please ask' and got 'this thing of mine'"


async def test_regenerating_the_answer_reads_the_choice_again(runner: Runner) -> None:
    """A44, E5"""
    await ask(runner, "this thing of mine")
    first = await ask(runner, "2")
    again = await (await runner.regenerate(key(), first.invocation_id)).result()
    assert again.text == first.text == "returns got 'this thing of mine'"
