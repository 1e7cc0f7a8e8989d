"""Three LLM agents of a support desk. Who answers is decided by their examples, before any model is asked."""

from support.model import MODEL
from support.tools import cancel_order, find_invoice, find_order
from turnwise import LlmAgent
from turnwise.agents import MemoryUse

HOUSE = (
    "You are part of the support desk of a shop. Be short, and say only what your tools tell you. "
    "Note with `remember` which order or invoice the customer has asked about. If a number is missing, try `recall` first."
)
MEMORY = MemoryUse("tool")
"""The tools `recall` and `remember`, for what holds beyond one session."""

orders = LlmAgent(
    "orders",
    model=MODEL,
    description="Finds out where orders are, and cancels them.",
    instructions=f"{HOUSE} Orders have numbers of four digits.",
    tools=[find_order, cancel_order],
    memory=MEMORY,
    examples=[
        "Where is my order?",
        "Has my parcel been sent?",
        "When does it arrive?",
        "Cancel my order, please",
        "My package is late",
        "I do not want order 1001 any more",
    ],
)

billing = LlmAgent(
    "billing",
    model=MODEL,
    description="Answers questions about invoices and payments.",
    instructions=f"{HOUSE} Invoices have numbers of four digits.",
    tools=[find_invoice],
    memory=MEMORY,
    examples=[
        "I have a question about my invoice",
        "You charged me twice",
        "Has my payment arrived?",
        "Is invoice 7001 paid?",
        "Where is my refund?",
        "Which ways to pay do you take?",
    ],
)

front = LlmAgent(
    "front",
    model=MODEL,
    description="Greets, and answers what no other agent does.",
    instructions=HOUSE,
    examples=["Hello", "Good morning", "Thank you", "What can you do?"],
    children=[orders, billing],
)
