"""How conversations that a client tells with every request become sessions."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2
import openai
import pytest
from gateway_play import served
from openai_play import Chat, assistant, chatting, client_of, said, session_of, user
from runner_play import Gate, soon

from turnwise import AgentContext, Content, Limits, RunConfig, Runner, agent
from turnwise.agents.function import FunctionAgent
from turnwise.content import TextPart
from turnwise.facts.gateway import CallerLimits, GatewayConfig
from turnwise.facts.ids import SystemIssuer
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict

MakeRunner = Callable[..., Runner]


def counter() -> FunctionAgent:
    """Answers with how often it answered in its session."""

    @agent
    async def counter(message: str, context: AgentContext) -> str:
        context.state["n"] = context.state.get("n", 0) + 1
        return f"{message} {context.state['n']}"

    return counter


async def test_a_conversation_is_one_session() -> None:
    async with chatting(counter()) as chat:
        one = await chat.ask("a")
        two = await chat.ask("a", assistant(said(one)), "b")
        # Clients trim what they repeat, and some send the same in other words of the protocol.
        parts: Any = [{"type": "text", "text": "a"}]
        three = await chat.ask(user(parts), assistant(" a 1\n", refusal=None, tool_calls=None), "b", assistant("b 2"), "c")
        assert [said(one), said(two), said(three)] == ["a 1", "b 2", "c 3"]
        assert session_of(one) == session_of(two) == session_of(three)
        assert await chat.sessions() == [session_of(one)]


async def test_it_goes_on_with_another_model() -> None:
    @agent(name="other")
    def other() -> str:
        return "other"

    @agent(children=[other])
    def root() -> str:
        return "root"

    async with chatting(root) as chat:
        one = await chat.ask("a", model="root")
        two = await chat.ask("a", assistant("root"), "b", model="other")
        assert (said(two), session_of(two)) == ("other", session_of(one))


async def test_two_conversations_with_the_same_opening() -> None:
    answers = iter(["one", "two", "first", "second"])

    @agent
    def root() -> str:
        return next(answers)

    async with chatting(root) as chat:
        one, two = await chat.ask("hello"), await chat.ask("hello")
        assert session_of(one) != session_of(two)
        first = await chat.ask("hello", assistant("one"), "and?")
        second = await chat.ask("hello", assistant("two"), "and?")
        assert [session_of(first), session_of(second)] == [session_of(one), session_of(two)]


async def test_equal_conversations_go_apart_when_they_go_on() -> None:
    async with chatting(counter()) as chat:
        one, two = await chat.ask("a"), await chat.ask("a")
        third, fourth = await chat.ask("a", assistant("a 1"), "b"), await chat.ask("a", assistant("a 1"), "b")
        assert {session_of(third), session_of(fourth)} == {session_of(one), session_of(two)}
        assert said(third) == said(fourth) == "b 2"


async def test_an_edited_turn_begins_a_branch() -> None:
    """A44."""
    async with chatting(counter()) as chat:
        one = await chat.ask("a")
        await chat.ask("a", assistant("a 1"), "b")
        await chat.ask("a", assistant("a 1"), "b", assistant("b 2"), "c")
        edited = await chat.ask("a", assistant("a 1"), "x")
        assert said(edited) == "x 2"
        branch = session_of(edited)
        assert branch != session_of(one)
        assert [text for _, text in await chat.log(branch)] == ["a", "a 1", "x", "x 2"]
        assert [text for _, text in await chat.log(session_of(one))] == ["a", "a 1", "b", "b 2", "c", "c 3"]
        # Both can be gone on with.
        on = await chat.ask("a", assistant("a 1"), "x", assistant("x 2"), "y")
        assert (said(on), session_of(on)) == ("y 3", branch)
        back = await chat.ask("a", assistant("a 1"), "b", assistant("b 2"), "c", assistant("c 3"), "d")
        assert (said(back), session_of(back)) == ("d 4", session_of(one))


async def test_a_turn_that_is_asked_for_again_begins_a_branch() -> None:
    async with chatting(counter()) as chat:
        one = await chat.ask("a")
        two = await chat.ask("a", assistant("a 1"), "b")
        again = await chat.ask("a", assistant("a 1"), "b")
        assert said(again) == "b 2"
        assert session_of(two) == session_of(one) != session_of(again)


async def test_a_history_from_elsewhere_is_put_on_record() -> None:
    heard: list[list[tuple[str, str]]] = []

    @agent
    async def root(message: str, context: AgentContext) -> str:
        heard.append([(event.author, event.text) for event in await context.history.last() if event.text])
        return f"{message}!"

    shots = [assistant("Welcome."), user("2+2"), assistant("4"), user("3+3"), assistant("6")]
    async with chatting(root) as chat:
        answer = await chat.ask(*shots, "4+4")
        log = [("root", "Welcome."), ("user", "2+2"), ("root", "4"), ("user", "3+3"), ("root", "6"), ("user", "4+4")]
        assert heard == [log]
        on = await chat.ask(*shots, "4+4", assistant("4+4!"), "5+5")
        assert session_of(on) == session_of(answer)
        edited = await chat.ask(*shots[:3], "9+9")
        assert session_of(edited) != session_of(answer)
        assert await chat.log(session_of(edited)) == [*log[:3], ("user", "9+9"), ("root", "9+9!")]


async def test_an_answer_that_was_edited_stands_as_the_client_tells_it() -> None:
    async with chatting(counter()) as chat:
        await chat.ask("a")
        await chat.ask("a", assistant("a 1"), "b")
        answer = await chat.ask("a", assistant("a 1"), "b", assistant("something else"), "c")
        assert [text for _, text in await chat.log(session_of(answer))] == ["a", "a 1", "b", "something else", "c", "c 2"]


class Redacts:
    """Takes a number out of messages."""

    name = "redacts"

    async def check(self, place: str, content: Content, agent: str | None) -> GuardrailVerdict:
        if place != "message" or "1234" not in content.text:
            return ALLOW
        part = TextPart(text=content.text.replace("1234", "####"))
        return GuardrailVerdict("rewrite", content.with_parts((part,)))


async def test_a_conversation_is_known_again_whatever_guardrails_took_out() -> None:
    async with chatting(counter(), guardrails=[Redacts()]) as chat:
        one = await chat.ask("my card is 1234")
        two = await chat.ask("my card is 1234", assistant(said(one)), "b")
        assert session_of(two) == session_of(one)
        moved = await chat.ask("hello", assistant("hi"), "it is 1234", assistant("thanks"), "c")
        assert "1234" not in json.dumps(await chat.log(session_of(moved)))


async def test_a_session_can_be_named() -> None:
    async with chatting(counter()) as chat:
        one = await chat.ask("a", metadata={"session_id": "mine"})
        two = await chat.ask("b", extra_headers={"X-Session-ID": "mine"})
        whole = await chat.ask("a", assistant("a 1"), "b", assistant("b 2"), "c", extra_headers={"X-Session-ID": "mine"})
        assert [said(one), said(two), said(whole)] == ["a 1", "b 2", "c 3"]
        assert await chat.sessions() == ["mine"]
        raw = await chat.gateway.post(
            "/v1/chat/completions", json={"model": "turnwise", "messages": [user("d")]}, headers={"X-Session-ID": "mine"}
        )
        assert raw.headers["x-session-id"] == "mine"
        # The same words are another message, each time.
        assert [said(await chat.ask("again", metadata={"session_id": "mine"})) for _ in range(2)] == ["again 5", "again 6"]
        new = await chat.ask("x", assistant("elsewhere"), "y", metadata={"session_id": "new"})
        assert [text for _, text in await chat.log(session_of(new))] == ["x", "elsewhere", "y", "y 1"]
        with pytest.raises(openai.UnprocessableEntityError):
            await chat.ask("a", metadata={"session_id": ""})
        for odd in ("größe\n🙂", "a\r\nX-Evil: 1"):
            assert session_of(await chat.ask("a", metadata={"session_id": odd})) == odd


async def test_two_equal_requests_at_once_are_two_conversations() -> None:
    async with chatting(counter()) as chat:
        openings = await asyncio.gather(chat.ask("a"), chat.ask("a"))
        assert [said(each) for each in openings] == ["a 1", "a 1"]
        assert len(await chat.sessions()) == 2
        more = await asyncio.gather(*(chat.ask("a", assistant("a 1"), "b") for _ in range(3)))
        assert [said(each) for each in more] == ["b 2"] * 3
        assert len({session_of(each) for each in more}) == 3
        named = await asyncio.gather(*(chat.ask("a", metadata={"session_id": "mine"}) for _ in range(3)))
        assert sorted(said(each) for each in named) == ["a 1", "a 2", "a 3"]


RETRIED = {"X-Stainless-Retry-Count": "1"}


async def lost_on_its_way(chat: Chat, gate: Gate, **body: Any) -> None:
    """Sends a request, and leaves once it is being answered."""
    sent = asyncio.create_task(chat.ask("a", **body))
    await gate.began.wait()
    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent


@pytest.mark.parametrize("named", [{}, {"metadata": {"session_id": "mine"}}], ids=["found", "named"])
async def test_a_request_that_is_sent_again_runs_once(named: dict[str, Any]) -> None:
    gate = Gate()
    async with chatting(gate.agent) as chat:
        await lost_on_its_way(chat, gate, **named)
        again = asyncio.create_task(chat.ask("a", extra_headers=RETRIED, **named))
        pieces = asyncio.create_task(chat.pieces("a", extra_headers=RETRIED, **named))
        gate.go.set()
        answer = await soon(again)
        await soon(pieces)
        (session,) = await chat.sessions()
        assert session == session_of(answer)
        assert await chat.log(session) == [("user", "a"), ("gated", "answer to a")]


async def test_the_clients_own_retry_runs_once() -> None:
    class Breaks(httpx2.AsyncHTTPTransport):
        """Loses the first answer."""

        lost = False

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            if self.lost:
                return response
            self.lost = True
            await response.aclose()
            raise httpx2.ReadError("It broke.")

    async with chatting(counter()) as chat:
        http = httpx2.AsyncClient(transport=Breaks())
        async with client_of(chat.gateway, http_client=http).with_options(max_retries=2) as client:
            messages: Any = [user("a")]
            answer = await client.chat.completions.create(model="turnwise", messages=messages)
        assert said(answer) == "a 1"
        assert await chat.log(session_of(answer)) == [("user", "a"), ("counter", "a 1")]
        assert len(await chat.sessions()) == 1


async def test_an_idempotency_key_names_a_request() -> None:
    key = {"Idempotency-Key": "k-1"}
    async with chatting(counter()) as chat:
        one, again = await chat.ask("a", extra_headers=key), await chat.ask("a", extra_headers=key)
        assert (one.id, session_of(one)) == (again.id, session_of(again))
        two = await chat.ask("a", assistant("a 1"), "b", extra_headers={"Idempotency-Key": "k-2"})
        assert session_of(two) == session_of(one)
        named = [await chat.ask("x", extra_headers={**key, "X-Session-ID": "mine"}) for _ in range(2)]
        assert [said(each) for each in named] == ["x 1", "x 1"]


async def test_what_was_refused_is_no_retry_of_what_was_answered() -> None:
    gate = Gate()
    gate.go.set()
    config = GatewayConfig(limits=CallerLimits(runs=1))
    async with chatting(gate.agent, config) as chat:
        one = await chat.ask("a")
        gate.go.clear()
        gate.began.clear()
        busy = asyncio.create_task(chat.ask("something else"))
        await gate.began.wait()
        with pytest.raises(openai.RateLimitError):
            await chat.ask("a")
        gate.go.set()
        await soon(busy)
        again = await chat.ask("a", extra_headers=RETRIED)
        assert session_of(again) != session_of(one)


async def test_an_old_answer_is_no_retrys() -> None:
    class Earlier(SystemIssuer):
        def now(self) -> Any:
            return super().now() - timedelta(minutes=5)

    async with chatting(counter(), issuer=Earlier()) as chat:
        one = await chat.ask("a")
        again = await chat.ask("a", extra_headers=RETRIED)
        assert session_of(again) != session_of(one)


async def test_a_message_that_was_taken_back_can_be_sent_again() -> None:
    """A44."""
    async with chatting(counter()) as chat:
        one = await chat.ask("a")
        two = await chat.ask("a", assistant("a 1"), "b")
        invocation = (two.model_extra or {})["turnwise"]["invocation_id"]
        await chat.runner.sessions.rewind(chat.runner.key("local", session_of(one)), invocation)
        again = await chat.ask("a", assistant("a 1"), "b")
        assert (said(again), session_of(again)) == ("b 2", session_of(one))
        assert again.id != two.id


async def test_other_processes_know_the_conversation(make_runner: MakeRunner) -> None:
    async with (
        served(make_runner(counter())) as first,
        served(make_runner(counter())) as second,
        client_of(first) as one,
        client_of(second) as other,
    ):
        messages: Any = [user("a")]
        answer = await one.chat.completions.create(model="turnwise", messages=messages)
        messages += [assistant(said(answer)), user("b")]
        on = await other.chat.completions.create(model="turnwise", messages=messages)
        assert (said(on), session_of(on)) == ("b 2", session_of(answer))


async def test_what_is_too_large_to_be_put_on_record_leaves_nothing_behind() -> None:
    config = RunConfig(limits=Limits(message_bytes=1000))
    async with chatting(counter(), config=config) as chat:
        with pytest.raises(openai.APIStatusError) as refused:
            await chat.ask("a", assistant("x" * 2000), "b", metadata={"session_id": "mine"})
        with pytest.raises(openai.APIStatusError):
            await chat.ask("a", assistant("x" * 2000), "b")
        assert (refused.value.status_code, refused.value.code) == (413, "message.too_large")
        assert await chat.sessions() == []


async def test_a_history_that_two_processes_put_on_record_at_once(make_runner: MakeRunner) -> None:
    """Each finds the session new, and only one can be first."""
    queued = RunConfig(when_busy="queue")
    async with (
        served(make_runner(counter(), config=queued)) as first,
        served(make_runner(counter(), config=queued)) as second,
        client_of(first) as one,
        client_of(second) as other,
    ):

        async def told(client: openai.AsyncOpenAI, text: str) -> str:
            messages: Any = [user("x"), assistant("elsewhere"), user(text)]
            answer = await client.chat.completions.create(
                model="turnwise", messages=messages, extra_headers={"X-Session-ID": "mine"}
            )
            return said(answer)

        answers = await asyncio.gather(*(told(client, text) for client, text in zip([one, other] * 2, "abcd", strict=True)))
        assert sorted(answer.split()[1] for answer in answers) == ["1", "2", "3", "4"]
        log = await first.front.runner.sessions.events(first.front.runner.key("local", "mine"))
        assert [event.text for event in log if event.text in ("x", "elsewhere")] == ["x", "elsewhere"]


async def test_results_that_no_call_led_to_are_put_on_record_once() -> None:
    result = {"role": "tool", "tool_call_id": "c9", "content": "seen"}
    async with chatting(counter()) as chat:
        await chat.ask("x", assistant("y"), "a")
        await chat.ask("x", assistant("y"), result, assistant("z"), "b")
        last = await chat.ask("x", assistant("y"), result, assistant("z"), "c")
        assert [text for _, text in await chat.log(session_of(last))] == ["x", "y", "z", "c", "c 1"]


async def test_a_conversation_is_not_endless() -> None:
    turn = [user("a"), assistant("b")]
    async with chatting(counter()) as chat:
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await chat.ask(*turn * 5_000, "c")
        assert (refused.value.code, refused.value.param) == ("request.invalid", "messages")
