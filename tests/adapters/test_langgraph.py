"""Graphs of LangGraph behind the front door, against the real library."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from adapter_play import Process, cancelled_in_the_middle, died_and_taken_up, house, read, whole

from turnwise import DataPart
from turnwise.agents.adapters.langgraph import LangGraphAgent
from turnwise.facts.errors import AgentDefinitionError

pytest.importorskip("langgraph.pregel", reason="langgraph is not installed: ./dev test adapters brings it")

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

USAGE = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}


class Scripted(BaseChatModel):
    """A model that says these answers, one a call, in pieces; what it was sent is in `calls`."""

    answers: list[Any]
    calls: list[list[Any]] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _next(self, messages: list[Any]) -> str:
        self.calls.append(messages)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        about = {"model_name": "m", "model_provider": "scripted"}
        message = AIMessage(self._next(messages), usage_metadata=USAGE, response_metadata=about)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(self, messages: list[Any], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for word in re.findall(r"\s*\S+", self._next(messages)):
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        about = {"model_name": "m", "model_provider": "scripted"}
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=USAGE, response_metadata=about))


def graph_of(model: Scripted, **options: Any) -> Any:
    async def speak(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("speak", speak)
    graph.add_edge(START, "speak")
    graph.add_edge("speak", END)
    return graph.compile(name="guide", **options)


def one_node(work: Any, state: Any = MessagesState, **options: Any) -> Any:
    graph = StateGraph(state)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    return graph.compile(name="guide", **options)


async def test_it_answers_in_pieces_that_are_the_stored_answer_with_its_usage(process: Process) -> None:
    """A19."""
    turn = await read(process(LangGraphAgent(graph_of(Scripted(answers=["It opens at nine."])))), "When?")
    assert (turn.text, turn.reason) == ("It opens at nine.", "completed")
    assert turn.pieces == {turn.answer.id: "It opens at nine."}
    usage = turn.answer.actions.usage
    assert usage is not None
    assert (usage.model, usage.calls, usage.input_tokens, usage.output_tokens) == ("scripted:m", 1, 10, 4)


async def test_it_is_handed_the_conversation_with_others_words_marked(process: Process) -> None:
    """D7."""
    model = Scripted(answers=["It opens at nine.", "At six."])
    runner = process(house(LangGraphAgent(graph_of(model))))
    await read(runner, "When?", to="guide")
    await read(runner, "And the clerk?", to="clerk")
    await read(runner, "Until when?", to="guide")
    first, second, third = model.calls[-1]
    assert first.text.endswith("When?")
    assert (second.type, second.text) == ("ai", "It opens at nine.")
    assert third.text == """And the clerk?\n<said by="clerk">The clerk heard 'And the clerk?'.</said>\nUntil when?"""


async def test_a_graph_that_keeps_the_conversation_is_told_only_what_is_new(process: Process) -> None:
    """Each of its messages once, and another session's never."""
    model = Scripted(answers=["It opens at nine.", "At six."])
    graph = graph_of(model, checkpointer=InMemorySaver())
    runner = process(house(LangGraphAgent(graph, keeps_history=True)))
    await read(runner, "When?", to="guide")
    await read(runner, "And the clerk?", to="clerk")
    await read(runner, "Until when?", to="guide")
    first, second, third = model.calls[-1]
    assert (first.text, second.text) == ("When?", "It opens at nine.")
    assert third.text.endswith(
        """<said by="user">And the clerk?</said>\n"""
        """<said by="clerk">The clerk heard 'And the clerk?'.</said>\nUntil when?"""
    )


async def test_what_a_graph_asks_by_interrupt_is_asked_of_the_user(process: Process) -> None:
    """A42: also when another process takes up the reply."""
    asked: list[str] = []

    def order(state: MessagesState) -> Any:
        size = interrupt("Which size?")
        asked.append(size)
        return {"messages": [AIMessage(f"Ordered in {size}.")]}

    adapter = LangGraphAgent(one_node(order, checkpointer=InMemorySaver()), keeps_history=True)
    waiting = await read(process(adapter), "Order it")
    assert (waiting.reason, waiting.text) == ("waiting", "Which size?")
    done = await read(process(adapter), "42")
    assert (done.text, done.reason) == ("Ordered in 42.", "completed")
    assert asked == ["42"]


async def test_an_interrupt_that_nobody_can_go_on_from_says_what_is_missing(process: Process) -> None:
    def order(state: MessagesState) -> Any:
        return {"messages": [AIMessage(interrupt("Which size?"))]}

    adapter = LangGraphAgent(one_node(order, checkpointer=InMemorySaver()), config={"configurable": {"thread_id": "t"}})
    turn = await read(process(adapter), "Order it")
    assert "keeps_history=True" in turn.error


async def test_it_answers_whole_when_nothing_is_to_be_streamed(process: Process) -> None:
    assert (await whole(process(LangGraphAgent(graph_of(Scripted(answers=["Nine."])))), "When?")).text == "Nine."


async def test_a_graph_of_another_shape_is_given_and_gives_what_the_functions_say(process: Process) -> None:
    from typing import TypedDict

    class Hours(TypedDict):
        question: str
        opens: int

    graph = one_node(lambda state: {"opens": len(state["question"])}, Hours)
    adapter = LangGraphAgent(graph, input=lambda messages, _: {"question": messages[-1].text}, output=dict)
    turn = await read(process(adapter), "When?")
    assert turn.answer.content is not None
    assert turn.answer.content.parts == (DataPart(name="output", data={"question": "When?", "opens": 5}),)
    lost = await read(process(LangGraphAgent(graph, input=lambda *_: {"question": ""})), "When?")
    assert "messages_key" in lost.error


async def test_a_structured_response_is_data(process: Process) -> None:
    class Answered(MessagesState):
        structured_response: dict[str, int]

    graph = one_node(lambda _: {"structured_response": {"opens": 9}}, Answered)
    turn = await read(process(LangGraphAgent(graph)), "When?")
    assert turn.answer.content is not None
    assert turn.answer.content.parts == (DataPart(name="output", data={"opens": 9}),)


class Status(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("a secret word")
        self.status_code = status


@pytest.mark.parametrize(
    ("error", "code"),
    [(Status(529), "model.unavailable"), (Status(400), "model.refused"), (RuntimeError("broke"), "agent.failed")],
)
async def test_what_it_raises_is_a_typed_failure_and_the_session_goes_on(process: Process, error: Any, code: str) -> None:
    runner = process(LangGraphAgent(graph_of(Scripted(answers=[error, "Nine."]))))
    failed = await read(runner, "When?")
    assert failed.reason == "failed"
    assert failed.error.startswith(f"{code}: Agent 'guide'")
    assert "secret" not in failed.error
    assert (await read(runner, "Again?")).text == "Nine."


async def test_its_recursion_limit_is_a_limit(process: Process) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("round", lambda _: {"messages": []})
    graph.add_edge(START, "round")
    graph.add_edge("round", "round")
    turn = await read(process(LangGraphAgent(graph.compile(name="guide"), config={"recursion_limit": 3})), "When?")
    assert turn.reason == "limit:steps"
    assert "Raise recursion_limit" in turn.error


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_turn_that_is_taken_up_again_does_not_run_it_again(process: Process, keeps: bool) -> None:
    """Decision 6."""
    model = Scripted(answers=["Nine.", "Six."])
    adapter = LangGraphAgent(graph_of(model, checkpointer=InMemorySaver() if keeps else None), keeps_history=keeps)
    assert await died_and_taken_up(process, adapter) == ["hi", "Nine.", "(filed)"]
    assert len(model.calls) == 1
    await read(process(adapter), "Until when?")
    assert [message.text for message in model.calls[-1]][-1] == "Until when?"


async def test_it_is_cancelled_in_the_middle(process: Process) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(state: MessagesState) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert await cancelled_in_the_middle(process(LangGraphAgent(one_node(wait))), begun) == "cancelled"
    assert ended.is_set()


def test_what_is_no_graph_or_has_no_name_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="A str cannot be wrapped"):
        LangGraphAgent("guide")
    graph = StateGraph(MessagesState)
    graph.add_node("a", lambda _: {})
    graph.add_edge(START, "a")
    with pytest.raises(AgentDefinitionError, match="has no name"):
        LangGraphAgent(graph.compile())
