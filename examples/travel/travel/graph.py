"""An existing app: a graph of LangGraph that books trains. It knows nothing of Turnwise."""

import re
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

TRAINS = {"berlin": "8:04", "hamburg": "9:36", "munich": "7:55"}


class Booking(TypedDict, total=False):
    """The graph's state: the conversation, and the destination once it is known."""

    messages: Annotated[list[AnyMessage], add_messages]
    to: str


def understand(state: Booking) -> dict[str, Any]:
    """Finds the destination in the last message, or asks for it."""
    text = str(state["messages"][-1].content)
    while not (found := next((city for city in TRAINS if re.search(rf"\b{city}\b", text, re.IGNORECASE)), None)):
        text = str(interrupt("Where do you want to go: Berlin, Hamburg or Munich?"))
    return {"to": found}


def book(state: Booking) -> dict[str, Any]:
    """Books the train."""
    city = state["to"]
    return {"messages": [AIMessage(f"You are booked on the {TRAINS[city]} to {city.title()}.")]}


builder = StateGraph(Booking)
builder.add_node("understand", understand)
builder.add_node("book", book)
builder.add_edge(START, "understand")
builder.add_edge("understand", "book")
builder.add_edge("book", END)
graph = builder.compile(name="trains", checkpointer=InMemorySaver())
