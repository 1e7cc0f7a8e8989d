"""The front door: the graph as one agent beside others."""

from travel.graph import graph
from turnwise import agent
from turnwise.agents import LangGraphAgent

trains = LangGraphAgent(
    graph,
    keeps_history=True,  # the graph has a checkpointer, so it gets only what is new
    description="Books trains.",
    examples=[
        "I need a train to Berlin",
        "Book me a seat to Munich",
        "I want to travel by rail tomorrow",
        "Can you book a train?",
        "A ticket to Hamburg, please",
    ],
)


@agent(
    description="Knows about luggage.",
    examples=["How many bags may I bring?", "Can I take my bike?", "I lost my suitcase", "How heavy may a bag be?"],
)
def luggage() -> str:
    return "Two bags and a bike are free."


@agent(children=[trains, luggage], examples=["Hello", "Thank you", "What can you do?"])
def front() -> str:
    """Greets, and answers what no other agent does."""
    return "I book trains and know about luggage."
