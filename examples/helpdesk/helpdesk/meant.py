"""Which order, item and account is meant: from the message, from what was said before, or by asking."""

from typing import NamedTuple

from helpdesk import reading
from helpdesk.asking import Unusable, ask_for
from helpdesk.shop import orders
from helpdesk.shop.orders import Item, Order
from helpdesk.wording import numbered, on
from turnwise import AgentContext, Content

NUMBER_HINT = "The number is in your confirmation mail: an A, a dash and five digits."


class Known(NamedTuple):
    """The order spoken of last, and the user's address: the one the caller vouches for, or the one said before."""

    order: str | None
    email: str | None


async def known(context: AgentContext) -> Known:
    """What was known when this turn began.

    An agent that asks is run again from its start, and by then it has written what it learned into the state. Recorded as a
    step, the answer stays the same in every run, so that the same questions are asked in the same order.
    """
    vouched = context.message_context.attributes.get("email")
    now = {"order": context.state.get("last_order"), "email": vouched or context.state.get("user:email")}
    then = await context.step("known", lambda: now)
    assert isinstance(then, dict)
    return Known(**then)  # type: ignore[arg-type]


async def email_meant(message: str, context: AgentContext, question: str) -> str:
    """The user's address: in the message, known, or asked for. It is remembered. GivenUp."""
    before = await known(context)
    email = reading.email(message) or before.email
    if email is None:
        email = await ask_for(context, question, read_email)
    context.state["user:email"] = email
    return email


def read_email(reply: Content) -> str:
    email = reading.email(reply.text)
    if email is None:
        raise Unusable("That does not look like an e-mail address. It should be like name@example.com.")
    return email


async def order_meant(message: str, context: AgentContext, question: str, *, last: bool = True) -> Order:
    """The order that the message names; else, with `last`, the one spoken of last; else the one named when asked. GivenUp."""
    before = await known(context)
    number = reading.order_number(message) or (before.order if last else None)
    order = orders.order(number) if number else None
    if order is None:
        email = reading.email(message) or before.email
        if number:
            question = f"I find no order {number}. {NUMBER_HINT} Which order is it?"
        elif email and (shown := _orders_of(email)):
            question = f"{question}\n{shown}"
        order = await ask_for(context, question, lambda reply: _read_order(reply, context))
    context.state["last_order"] = order.id
    return order


def _read_order(reply: Content, context: AgentContext) -> Order:
    number = reading.order_number(reply.text) or reading.bare_order_number(reply.text)
    if number:
        order = orders.order(number)
        if order is None:
            raise Unusable(f"I find no order {number}. {NUMBER_HINT} Which order is it?")
        return order
    email = reading.email(reply.text)
    if email is None:
        raise Unusable(f"I need the number of the order, or your e-mail address. {NUMBER_HINT}")
    context.state["user:email"] = email
    shown = _orders_of(email)
    raise Unusable(f"These are your latest orders:\n{shown}\nWhich one is it?" if shown else f"I find no orders of {email}.")


def _orders_of(email: str) -> str:
    return numbered([summary(order) for order in orders.orders_of(email)[:5]])


def summary(order: Order) -> str:
    """One line: number, state, what is in it."""
    items = ", ".join(f"{item.quantity} × {item.name}" if item.quantity > 1 else item.name for item in order.items)
    when = on(order.delivered_on) if order.delivered_on else f"placed {on(order.placed_on)}"
    return f"{order.id}, {order.status} {when}: {items}"


async def item_meant(message: str, context: AgentContext, order: Order, question: str) -> Item:
    """The item of the order that the message names, or the only one, or the one named when asked. GivenUp."""
    names = [item.name for item in order.items]
    if len(names) == 1:
        return order.items[0]
    place = reading.choice(message, names)
    if place is None:
        shown = f"{question}\n{numbered(names)}"
        place = await ask_for(context, shown, lambda reply: _read_choice(reply, names))
    return order.items[place]


def _read_choice(reply: Content, names: list[str]) -> int:
    place = reading.choice(reply.text, names)
    if place is None:
        raise Unusable(f"Which of these is it? The number is enough.\n{numbered(names)}")
    return place
