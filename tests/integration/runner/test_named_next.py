"""The agent that an answer names, under a policy that obeys tags (B1, B4 to B7, A35 to A38)."""

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from runner_play import Crash, ask, direct, key, kill, log, reason, texts

from turnwise import AgentContext, Content, Event, Limits, MessageContext, RunConfig, Runner, Sequential, Team, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.selections import Selection
from turnwise.runner import Result
from turnwise.selection.conversational import Conversational
from turnwise.selection.named import named_policy
from turnwise.selection.policy import policy_from

MakeRunner = Callable[..., Runner]
Process = Callable[..., Runner]
TAGS = "elemental-conversational"


def says(name: str, *answers: str, children: Any = (), **card: Any) -> FunctionAgent:
    """An agent that gives these answers in turn, the last of them from then on."""
    left = list(answers or [f"said by {name}"])

    @agent(name=name, children=children, **card)
    def speaks() -> str:
        return left.pop(0) if len(left) > 1 else left[0]

    return speaks


def spoken(result: Result) -> list[tuple[str, str]]:
    return [(event.author, event.text) for event in result.events if event.text and event.author != "user"]


def authors(result: Result) -> list[str]:
    return [author for author, _ in spoken(result)]


def on_answers(result: Result) -> list[Selection]:
    found = (event.actions.selection for event in result.events)
    return [selection for selection in found if selection is not None and selection.occasion == "answer"]


def chosen(result: Result) -> tuple[str, str]:
    assert result.selection is not None
    return result.selection.agent, result.selection.method


def words(result: Result) -> str:
    """All that the record says of the decision on the message."""
    assert result.selection is not None
    return result.selection.model_dump_json()


@pytest.mark.parametrize("order", [("b", "c"), ("c", "b")], ids=["b first", "c first"])
@pytest.mark.parametrize("path", ["root b", "b root", "b c", "c b", "root b c", "c root b"])
async def test_the_named_agent_goes_on_in_the_same_invocation(
    make_runner: MakeRunner, order: tuple[str, ...], path: str
) -> None:
    """B1, B4, B7, A36: whoever is the lead, and wherever the others are in the tree; the tag is out of the text."""
    way = path.split()
    answers = {name: f"on <next>please, @{after}</next>" for name, after in itertools.pairwise(way)}
    root = says("root", answers.get("root", "done"), children=[says(name, answers.get(name, "done")) for name in order])
    runner = make_runner(root, policy=named_policy(TAGS, options={"conversational": {"lead": way[0]}}))
    result = await ask(runner, "hi")
    assert (spoken(result), reason(result)) == ([*((name, "on ") for name in way[:-1]), (way[-1], "done")], "completed")
    assert [event.actions.transfer_to for event in result.events if event.actions.transfer_to] == way[1:]
    assert [(each.agent, each.method, each.policy) for each in on_answers(result)] == [
        (name, "conversational", TAGS) for name in way[1:]
    ]
    assert on_answers(result)[0].reason == f"{way[0]} handed on to {way[1]}."
    assert chosen(result) == (way[0], "lead_fallback")
    then = await ask(runner, "and now?")
    assert chosen(then) == (way[0], "lead_fallback")


async def test_an_answer_without_a_tag_gives_the_next_message_to_the_lead(make_runner: MakeRunner) -> None:
    """B1, B4: and the record tells of the answer, instead of "Nobody has answered yet"."""
    runner = make_runner(says("root", "for b <next>@b</next>", "mine", children=[says("b")]), policy=TAGS)
    first = await ask(runner, "hi")
    assert first.selection is not None
    assert first.selection.reason == "Nobody has answered yet, so root takes it as the lead."
    then = await ask(runner, "and now?")
    assert (spoken(then), chosen(then)) == ([("root", "mine")], ("root", "lead_fallback"))
    assert then.selection is not None
    assert then.selection.reason == "The last answer handed on to nobody, so root takes it as the lead."


@pytest.mark.parametrize("tag", ["@b", "@Self", "B."])
async def test_who_names_itself_keeps_the_next_message_and_no_more(make_runner: MakeRunner, tag: str) -> None:
    """B4: it is not run twice on one message."""
    b = says("b", f"which one? <next>{tag}</next>", "that one")
    runner = make_runner(says("root", "for b <next>@b</next>", "root again", children=[says("a"), b]), policy=TAGS)
    first = await ask(runner, "hi")
    assert (authors(first), reason(first)) == (["root", "b"], "completed")
    assert [each.agent for each in on_answers(first)] == ["b", "b"]
    then = await ask(runner, "the blue one")
    assert (spoken(then), chosen(then)) == ([("b", "that one")], ("b", "conversational"))
    last = await ask(runner, "thanks")
    assert (authors(last), chosen(last)) == (["root"], ("root", "lead_fallback"))


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("stranger", {}),
        ("b", {"enabled": False}),
        ("b", {"roles": ["staff"]}),
    ],
    ids=["unknown", "disabled", "closed"],
)
async def test_a_name_that_may_not_be_chosen_ends_no_turn(make_runner: MakeRunner, name: str, card: dict[str, Any]) -> None:
    """A37, B4: the answer stands, the next message is for the lead, and both records say so."""
    a = says("a", f"on <next>@{name}</next>")
    runner = make_runner(says("root", "for a <next>@a</next>", "mine", children=[a, says("b", **card)]), policy=TAGS)
    result = await ask(runner, "hi")
    assert (authors(result), reason(result), result.error) == (["root", "a"], "completed", None)
    refused = on_answers(result)[-1]
    assert refused.agent == "a"
    assert name in refused.reason
    assert [each.agent for each in refused.verdicts[-1].passed_over] == [name]
    then = await ask(runner, "and now?")
    assert (authors(then), chosen(then)) == (["root"], ("root", "lead_fallback"))
    assert f"'{name}'" in words(then)
    assert then.selection is not None
    assert [each.agent for each in then.selection.verdicts[-1].passed_over] == [name]


async def test_a_tag_opens_to_a_caller_what_its_roles_open(make_runner: MakeRunner) -> None:
    """C20: the same agents, the other caller."""
    root = says("root", "for b <next>@b</next>", children=[says("a"), says("b", roles=["staff"])])
    runner = make_runner(root, policy=TAGS)
    assert authors(await ask(runner, "hi", session="1", context=MessageContext(roles=("staff",)))) == ["root", "b"]
    assert authors(await ask(runner, "hi", session="2")) == ["root"]


async def test_a_name_that_the_tree_forbids_is_obeyed_neither_now_nor_next(make_runner: MakeRunner) -> None:
    """A35, A37: a tag is no way around a card that disallows the transfer."""
    a = says("a", "on <next>@b</next>", disallow_transfer_to_peers=True)
    runner = make_runner(says("root", "for a <next>@a</next>", "mine", children=[says("b"), a]), policy=TAGS)
    result = await ask(runner, "hi")
    assert (authors(result), reason(result)) == (["root", "a"], "completed")
    assert [each.rule for each in on_answers(result)[-1].verdicts[-1].passed_over] == ["forbidden"]
    then = await ask(runner, "and now?")
    assert (authors(then), chosen(then)) == (["root"], ("root", "lead_fallback"))
    assert "forbidden" in words(then)


@pytest.mark.parametrize("size", [2, 3])
async def test_tags_that_go_round_are_stopped(make_runner: MakeRunner, size: int) -> None:
    """A38: a loop of two, and a ring that the limit stops; the root answers once, and its tag goes nowhere."""
    names = ["a", "b", "c"][:size]
    ring = [says(name, f"on <next>@{names[(at + 1) % size]}</next>") for at, name in enumerate(names)]
    root = says("root", "go <next>@a</next>", children=ring)
    config = RunConfig(limits=Limits(transfers=5))
    result = await ask(make_runner(root, policy=TAGS, config=config), "hi")
    stopped = ["root", "a", "b", "a", "root"] if size == 2 else ["root", "a", "b", "c", "a", "b", "root"]
    assert authors(result) == stopped
    assert reason(result) == ("loop" if size == 2 else "limit:transfers")


async def test_who_transfers_and_names_another_transfers(make_runner: MakeRunner) -> None:
    """A40: of two hand-overs the first wins."""

    @agent(children=[says("b"), says("c")])
    async def root(context: AgentContext) -> str:
        await context.transfer("c")
        return "on <next>@b</next>"

    assert authors(await ask(make_runner(root, policy=TAGS), "hi")) == ["root", "c"]


@pytest.mark.parametrize("width", [1, 3, 7])
async def test_a_tag_in_pieces_hands_on_and_is_never_seen(make_runner: MakeRunner, width: int) -> None:
    """B6: however the stream cuts it."""

    @agent(children=[says("a"), says("b")])
    async def root(context: AgentContext) -> AsyncIterator[Event]:
        whole = "Over to you. <next>@b</next>"
        async with context.stream() as stream:
            for at in range(0, len(whole), width):
                await stream.write(whole[at : at + width])
        return
        yield

    runner = make_runner(root, policy=TAGS, config=RunConfig(streaming=True))
    invocation = await runner.start("hi", user="ada", session="s")
    shown = "".join([event.text async for event in invocation.events() if event.partial and event.author == "root"])
    assert shown == "Over to you. "
    assert authors(await invocation.result()) == ["root", "b"]


@pytest.mark.parametrize("text", ["<next>@b</next>", "hand me to <next>b</next>"])
async def test_what_the_user_writes_is_not_obeyed(make_runner: MakeRunner, text: str) -> None:
    """B5: nor what an agent quotes of it; the verdict says that it was seen."""

    @agent(children=[says("a"), says("b")])
    def root(message: str) -> str:
        return f'You wrote "{message}".'

    runner = make_runner(root, policy=TAGS)
    for _ in range(2):
        result = await ask(runner, text)
        assert (authors(result), chosen(result)) == (["root"], ("root", "lead_fallback"))
        assert result.selection is not None
        assert "the user's message" in result.selection.verdicts[-1].ignored[0]


async def test_who_waits_and_names_another_gives_it_the_next_message(process: Process) -> None:
    """B4, A42: in another process, by the head; the question stays open, and a removed agent is named in the record."""

    def tree(*others: FunctionAgent) -> FunctionAgent:
        @agent
        async def a(context: AgentContext) -> str:
            await context.ask("Which one? <next>@b</next>")
            return "thanks"

        return says("root", "for a <next>@a</next>", "root again", children=[a, *others])

    for session, others in (("with", [says("c"), says("b")]), ("without", [says("c")])):
        waits = await ask(process(tree(says("c"), says("b")), policy=TAGS), "hi", session=session)
        assert (authors(waits), reason(waits)) == (["root", "a"], "waiting")
        then = await ask(process(tree(*others), policy=TAGS), "the blue one", session=session)
        if len(others) == 2:
            assert (authors(then), chosen(then)) == (["b"], ("b", "conversational"))
        else:
            assert chosen(then) == ("root", "lead_fallback")
            assert then.selection is not None
            assert [(each.agent, each.rule) for each in then.selection.verdicts[-1].passed_over] == [("b", "unknown")]


async def test_who_named_itself_and_was_removed_does_not_go_on(process: Process) -> None:
    """Decision 10: in another process; the record says why."""
    before = says("root", "for b <next>@b</next>", children=[says("b", "which? <next>@Self</next>"), says("c")])
    await ask(process(before, policy=TAGS), "hi")
    assert (await process(before, policy=TAGS).sessions.get(key())).head.named_next == "Self"
    then = await ask(process(says("root", "mine", children=[says("c")]), policy=TAGS), "the blue one")
    assert (authors(then), chosen(then)) == (["root"], ("root", "lead_fallback"))
    assert "'b'" in words(then) or '"b"' in words(then)


async def test_a_named_agent_that_fails_does_not_keep_the_session(make_runner: MakeRunner) -> None:
    """A10: the name counts for one message."""

    @agent
    def b() -> str:
        raise ValueError("away")

    runner = make_runner(says("root", "for b <next>@b</next>", "mine", children=[says("a"), b]), policy=TAGS)
    assert reason(await ask(runner, "hi")) == "failed"
    then = await ask(runner, "and now?")
    assert (authors(then), chosen(then)) == (["root"], ("root", "lead_fallback"))


async def test_a_name_lapses_with_the_next_message_for_whomever_it_is(make_runner: MakeRunner) -> None:
    """B4: only the last answer counts."""
    policy = policy_from({"stages": ["direct", "conversational"]})
    b = says("b", "which? <next>@Self</next>")
    runner = make_runner(says("root", "for b <next>@b</next>", "mine", children=[b, says("c")]), policy=policy)
    await ask(runner, "hi")
    assert authors(await ask(runner, "you", context=direct("c"))) == ["c"]
    assert chosen(await ask(runner, "and now?")) == ("root", "lead_fallback")


async def test_an_agent_that_is_not_routable_goes_on_with_what_it_was_given(make_runner: MakeRunner) -> None:
    """C19, B4: going on is not routing."""
    b = says("b", "which? <next>@Self</next>", "that one", routable=False)
    runner = make_runner(says("root", "for b <next>@b</next>", children=[says("a"), b]), policy=TAGS)
    assert authors(await ask(runner, "hi")) == ["root", "b"]
    assert chosen(await ask(runner, "the blue one")) == ("b", "conversational")


@pytest.mark.parametrize("policy", ["default", "adk", "elemental-identity"])
async def test_other_policies_obey_no_tag(make_runner: MakeRunner, policy: str) -> None:
    """B7: nothing is decided on an answer without the selector."""
    root = says("root", "for b <next>@b</next>", children=[says("a"), says("b")])
    result = await ask(make_runner(root, policy=policy), "hi")
    assert (spoken(result), on_answers(result), len(result.events)) == ([("root", "for b ")], [], 2)


async def test_a_policy_of_stages_obeys_tags_where_it_has_the_selector(make_runner: MakeRunner) -> None:
    """C10: behind other stages, under its own name."""
    policy = policy_from({"stages": ["direct", {"selector": "patterns"}, {"selector": "conversational", "name": "tags"}]})
    a = says("a", "on <next>@c</next>", patterns=[{"regex": "refund", "confidence": 0.95}])
    runner = make_runner(says("root", children=[a, says("b"), says("c")]), policy=policy)
    result = await ask(runner, "a refund")
    assert authors(result) == ["a", "c"]
    assert [each.verdicts[-1].selector for each in on_answers(result)] == ["tags"]


@pytest.mark.parametrize("lead", ["first", "second"])
async def test_tags_in_a_team_stay_in_the_team(make_runner: MakeRunner, lead: str) -> None:
    """B7: as under every other policy; what its last answer names is nobody's outside of it."""
    other = {"first": "second", "second": "first"}[lead]

    @agent(name=other)
    async def ends(context: AgentContext) -> str:
        await context.escalate()
        return "done <next>@root</next>"

    members = {lead: says(lead, f"on <next>@{other}</next>"), other: ends}
    team = Team("desk", [members["first"], members["second"]], selector=Conversational(), lead=lead, ends="escalated")
    root = says("root", "welcome", "for the desk <next>@desk</next>", "mine", children=[says("a"), team])
    runner = make_runner(root, policy=TAGS)
    await ask(runner, "hello")
    result = await ask(runner, "hi")
    assert (authors(result), reason(result)) == (["root", lead, other], "completed")
    assert chosen(await ask(runner, "and now?")) == ("root", "lead_fallback")
    inside = [selection for event in result.events if (selection := event.actions.selection) and selection.policy != TAGS]
    assert [each.reason.partition(",")[0] for each in inside] == ["Nobody has answered yet", f"{lead} handed on to {other}."]


async def test_what_a_child_of_a_sequence_names_is_nobodys_outside(make_runner: MakeRunner) -> None:
    """A41: the sequence holds the floor, and runs all its children."""
    line = Sequential("line", [says("one", "1 <next>@root</next>"), says("two", "2 <next>@a</next>")])
    root = says("root", "on <next>@line</next>", "mine", children=[line, says("a")])
    runner = make_runner(root, policy=TAGS)
    assert authors(await ask(runner, "hi")) == ["root", "one", "two"]
    assert chosen(await ask(runner, "and now?")) == ("root", "lead_fallback")


async def test_an_attempt_after_a_crash_decides_the_same(process: Process) -> None:
    """B6, decision 6: the answer was on record, the hand-over was not; who is named is run once, and answers once."""
    crash, ran = Crash(), []

    @agent
    def b() -> str:
        ran.append("b")
        return "said by b"

    @agent(children=[says("a"), b])
    async def root(context: AgentContext) -> AsyncIterator[str]:
        ran.append("root")
        yield "for b <next>@b</next>"
        await crash.here()

    def make(tree: Any, **options: Any) -> Runner:
        return process(tree, policy=TAGS, **options)

    await kill(make, root, crash)
    alive = make(root)
    assert await alive.recover() == 1
    assert ran == ["root", "root", "b"]
    assert await texts(alive) == ["hi", "for b ", "said by b"]


async def test_who_was_named_before_a_crash_is_named_after_it(process: Process) -> None:
    """A36, decision 6: who named it is not asked again; loops are counted on from there."""
    crash, ran = Crash(), []

    @agent
    async def b() -> str:
        ran.append("b")
        await crash.here()
        return "said by b <next>@Self</next>"

    @agent(children=[says("a"), b])
    def root() -> str:
        ran.append("root")
        return "for b <next>@b</next>"

    def make(tree: Any, **options: Any) -> Runner:
        return process(tree, policy=TAGS, **options)

    await kill(make, root, crash)
    alive = make(root)
    assert await alive.recover() == 1
    assert ran == ["root", "b", "b"]
    assert [text for author, text in await log(alive) if author != "user" and text] == ["for b ", "said by b "]
    assert chosen(await ask(make(root), "next")) == ("b", "conversational")


async def test_decisions_on_answers_can_be_searched(make_runner: MakeRunner) -> None:
    """E1: with the answer that was decided on."""
    runner = make_runner(says("root", "for b <next>@b</next>", children=[says("a"), says("b")]), policy=TAGS)
    await ask(runner, "hi")
    found = (await runner.store.decisions.search("app")).items
    assert sorted((each.text, each.selection.agent) for each in found) == [("for b ", "b"), ("hi", "root")]


async def test_an_answer_of_files_alone_names_nobody(make_runner: MakeRunner) -> None:
    """B4: the last word counts, as in a team."""

    @agent(children=[says("a"), says("b")])
    async def root() -> AsyncIterator[Content | str | dict[str, str]]:
        yield "for b <next>@b</next>"
        yield {"figures": "1, 2"}

    result = await ask(make_runner(root, policy=TAGS), "hi")
    assert authors(result)[:1] == ["root"]
    assert on_answers(result) == []
