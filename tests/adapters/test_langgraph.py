"""Graphs of LangGraph behind the front door, against the real library."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from adapter_play import Process, cancelled_in_the_middle, died_and_taken_up, hotel, house, read, whole
from frameworks_play import shown_and_printed

from turnwise import DataPart, load_app
from turnwise.agents.adapters.langgraph import LangGraphAgent
from turnwise.facts.errors import AgentDefinitionError

pytest.importorskip("langgraph.pregel", reason="langgraph is not installed: ./dev test adapters brings it")

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

TRAVEL = Path(__file__).resolve().parents[2] / "examples" / "travel"
USAGE = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}


class Scripted(BaseChatModel):
    """A model that says these answers, one a call, in pieces; what it was sent is in `calls`."""

    answers: list[Any]
    calls: list[list[Any]] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _next(self, messages: list[Any]) -> Any:
        """The next answer: a text, or a list of tool calls."""
        self.calls.append(messages)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        about = {"model_name": "m", "model_provider": "scripted"}
        answer = self._next(messages)
        text, calls = ("", answer) if isinstance(answer, list) else (answer, [])
        message = AIMessage(text, tool_calls=calls, usage_metadata=USAGE, response_metadata=about)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(self, messages: list[Any], *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        answer = self._next(messages)
        if isinstance(answer, list):
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_calls=answer))
        else:
            for word in re.findall(r"\s*\S+", answer):
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


def with_tools(model: Scripted, *tools: Any, **options: Any) -> Any:
    """An agent with tools, whose results go back to its model; the tool that transfers is one of them."""

    async def speak(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("speak", speak)
    graph.add_node("tools", ToolNode([LangGraphAgent.transfer_tool(), *tools]))
    graph.add_edge(START, "speak")
    graph.add_conditional_edges("speak", tools_condition)
    graph.add_edge("tools", "speak")
    return graph.compile(name="guide", **options)


def to(agent: str, number: int = 1, **more: str) -> dict[str, Any]:
    return {"name": "transfer_to_agent", "args": {"agent": agent, **more}, "id": f"c{number}", "type": "tool_call"}


@pytest.mark.parametrize("streaming", [True, False])
async def test_it_hands_over_to_an_agent_of_ours(process: Process, streaming: bool) -> None:
    """A35, A36: the graph ends there, the usage is recorded, and the other agent answers in the same invocation."""
    model = Scripted(answers=[[to("clerk")]])
    runner = process(house(LangGraphAgent(with_tools(model), hands_over=True)))
    turn = await read(runner, "I want to buy it.", to="guide", streaming=streaming)
    assert (turn.text, turn.reason) == ("The clerk heard 'I want to buy it.'.", "completed")
    assert len(model.calls) == 1
    assert "- clerk: Another agent of the house." in model.calls[0][-1].text
    assert [event.actions.usage.calls for event in turn.events if event.actions.usage is not None] == [1]


@pytest.mark.parametrize("name", ["nobody", "till", "guide"])
async def test_a_target_that_is_unknown_or_forbidden_comes_back_as_the_tools_result(process: Process, name: str) -> None:
    """A37: it names those that are allowed, and the agent may try again."""
    model = Scripted(answers=[[to(name)], [to("clerk", message="Sell a guide book.")]])
    turn = await read(process(hotel(LangGraphAgent(with_tools(model), hands_over=True))), "I want to buy it.", to="guide")
    assert turn.text == "The clerk heard 'Sell a guide book.'."
    assert model.calls[1][-1].text == f"There is no agent '{name}' that could take over. Choose one of: front, clerk, porter."


@pytest.mark.parametrize("args", [{}, {"agent": ["clerk"]}, {"name": "clerk"}])
async def test_arguments_that_name_nobody_come_back_too(process: Process, args: dict[str, Any]) -> None:
    wrong = {"name": "transfer_to_agent", "args": args, "id": "c1", "type": "tool_call"}
    model = Scripted(answers=[[wrong], "At nine."])
    turn = await read(process(house(LangGraphAgent(with_tools(model), hands_over=True))), "When?", to="guide")
    assert (turn.text, turn.error) == ("At nine.", "")
    assert "Choose one of: front, clerk." in model.calls[1][-1].text


async def test_of_two_transfers_at_once_the_first_counts_and_tools_beside_them_run(process: Process) -> None:
    """A40."""
    seen: list[str] = []

    def note(text: str) -> str:
        """Notes a text."""
        seen.append(text)
        return "noted"

    beside: dict[str, Any] = {"name": "note", "args": {"text": "a buyer"}, "id": "c3", "type": "tool_call"}
    model = Scripted(answers=[[to("clerk", 1), to("porter", 2), beside], "Welcome."])
    keeper = InMemorySaver()
    adapter = LangGraphAgent(with_tools(model, note, checkpointer=keeper), hands_over=True, keeps_history=True)
    runner = process(hotel(adapter))
    turn = await read(runner, "I want to buy it.", to="guide")
    assert (turn.text, seen) == ("The clerk heard 'I want to buy it.'.", ["a buyer"])
    assert (await read(runner, "Thanks.", to="guide")).text == "Welcome."
    results = [(each.tool_call_id, each.text) for each in model.calls[-1] if each.type == "tool"]
    assert results == [("c1", "clerk takes over."), ("c2", "clerk takes over already."), ("c3", "noted")]


async def test_it_may_get_the_conversation_back_but_not_for_ever(process: Process) -> None:
    """A38: A→B→A is a conversation, A→B→A→B is a loop."""
    model = Scripted(answers=[[to("porter")], "At nine.", [to("porter")], [to("porter")]])
    adapter = LangGraphAgent(with_tools(model, checkpointer=InMemorySaver()), hands_over=True, keeps_history=True)
    runner = process(hotel(adapter))
    back = await read(runner, "When?", to="guide")
    assert (back.text, back.reason) == ("At nine.", "completed")
    asked = [each.text.rpartition("]\n")[2] for each in model.calls[1] if each.type == "human"]
    assert asked == ["When?", "When?"]
    loop = await read(runner, "Until when?", to="guide")
    assert (loop.text, loop.reason) == ("nobody was asked", "loop")
    assert model.answers == []


async def test_a_question_beside_a_transfer_is_asked_first(process: Process) -> None:
    def size() -> str:
        """Asks for the size."""
        return str(interrupt("Which size?"))

    beside: dict[str, Any] = {"name": "size", "args": {}, "id": "c2", "type": "tool_call"}
    model = Scripted(answers=[[to("clerk"), beside], "Thanks."])
    adapter = LangGraphAgent(with_tools(model, size, checkpointer=InMemorySaver()), hands_over=True, keeps_history=True)
    assert (await read(process(house(adapter)), "I want to buy it.", to="guide")).text == "Which size?"
    assert (await read(process(house(adapter)), "42", to="guide")).text == "The clerk heard '42'."


async def test_without_others_nobody_can_take_over(process: Process) -> None:
    """A35: and an adapter that does not hand over never does, inside one that does too."""
    model = Scripted(answers=[[to("clerk")], "At nine.", [to("clerk")], "At nine."])
    turn = await read(process(LangGraphAgent(with_tools(model), hands_over=True)), "When?")
    assert turn.text == "At nine."
    assert model.calls[0][-1].text == "When?"
    assert model.calls[1][-1].text == "No other agent can take over now. Answer yourself."
    turn = await read(process(house(LangGraphAgent(with_tools(model)))), "When?", to="guide")
    assert (turn.text, turn.answer.author) == ("At nine.", "guide")
    assert model.calls[3][-1].text == "No other agent can take over now. Answer yourself."


async def test_the_example_graph_stands_behind_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAVEL_SESSIONS", str(tmp_path / "travel.db"))
    runner = load_app(TRAVEL / "turnwise.yaml").runner
    said = []
    for message in ("Can you book a train for me?", "to Hamburg", "How many bags may I take?"):
        result = await (await runner.start(message, user="ada", session="s1")).result()
        assert result.selection is not None
        said.append((result.selection.agent, result.text))
    await runner.close()
    assert said == [
        ("trains", "Where do you want to go: Berlin, Hamburg or Munich?"),
        ("trains", "You are booked on the 9:36 to Hamburg."),
        ("luggage", "Two bags and a bike are free."),
    ]


def test_the_page_on_frameworks_prints_what_it_shows(tmp_path: Path) -> None:
    """An agent with a fake of its framework behind one door with one of ours."""
    shown, printed = shown_and_printed("with_langgraph.py", tmp_path)
    assert printed == shown
