"""The desks with a model behind them: the same cards, patterns, examples and tree, but a model decides what is said.

What the desks may do are the tools; what a desk is for says its card.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from helpdesk import clock
from helpdesk.tools import accounts, billing, orders, shopping
from turnwise import AgentContext
from turnwise.agents import Agent, LlmAgent
from turnwise.models import Spec
from turnwise.tools import AgentTool

_HOUSE = """\
You are one desk of the help desk of a retail shop. Answer in two or three plain sentences, and say only what your tools tell
you: never make up an order, a price or a day. Ask for what you need, one thing at a time. When another desk fits better, hand
the conversation over without announcing it."""


class Desk(NamedTuple):
    """rules: what holds for this desk alone. tools: what it may call."""

    rules: str = ""
    tools: tuple[Any, ...] = ()


_DESKS: Mapping[str, Desk] = {
    "supervisor": Desk(
        "Pass on what any other desk can do. Open a case only for who asks for a person, or complains.", (accounts.open_case,)
    ),
    "orders": Desk(
        "An order that has left cannot be cancelled, but sent back later. Money is the billing desk's.",
        (orders.find_order, orders.orders_of, orders.cancel_order),
    ),
    "returns": Desk(
        "Find out the order, the item, the reason, and whether it comes by post or to a store. Who brings it to a store wants "
        "to know its hours. What broke after the days of return goes to the warranty desk.",
        (orders.find_order, orders.orders_of, orders.announce_return, orders.returns_of, AgentTool("stores")),
    ),
    "warranty": Desk("Ask what is wrong with it before you open a claim.", (orders.find_order, orders.claim_warranty)),
    "billing": Desk("", (billing.refunds, billing.same_purchases, billing.save_invoice, orders.find_order, orders.orders_of)),
    "gift_cards": Desk("There are gift cards of $10 to $500.", (billing.gift_card,)),
    "account": Desk("", (accounts.account, accounts.move)),
    "password_reset": Desk("Never ask for a password.", (accounts.send_code, accounts.try_code)),
    "shopping": Desk("", (shopping.search_products, shopping.stock, shopping.gift_ideas)),
    "products": Desk("Offer at most three, the best first.", (shopping.search_products,)),
    "stores": Desk("", (shopping.find_stores,)),
    "general": Desk("Greet, thank and say goodbye in a word.", (shopping.frequent_answer,)),
}


def with_model(agent: Agent, model: Spec) -> LlmAgent:
    """The agent, and those below it, with that model behind them."""
    card = agent.card
    desk = _DESKS[card.name]
    fields = card.model_dump(exclude={"name", "description", "kind", "parent"})
    return LlmAgent(
        card.name,
        model=model,
        description=card.description,
        instructions=_instructions(f"You are the desk {card.name}: {card.description} {desk.rules}".strip()),
        tools=desk.tools,
        children=[with_model(child, model) for child in agent.children],
        **fields,
    )


def _instructions(duty: str) -> Callable[[AgentContext], str]:
    def told(context: AgentContext) -> str:
        vouched = context.message_context.attributes.get("email")
        email = vouched or context.state.get("user:email")
        known = f"\nThe customer's e-mail address is {email}." if email else ""
        return f"{_HOUSE}\n{duty}\nIt is {clock.now():%A, %Y-%m-%d, %H:%M}.{known}"

    return told
