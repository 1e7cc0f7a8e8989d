"""Which order, item and account is meant: from the message, from what was said before, or by asking."""

from typing import NamedTuple

from helpdesk import reading
from helpdesk.asking import Further, Unusable, ask_for
from helpdesk.shop import orders
from helpdesk.shop.orders import Item, Order
from helpdesk.wording import numbered, on
from turnwise import AgentContext, Content

NUMBER_HINT = "The number is in your confirmation mail: an A, a dash and five digits."
SHOWN = 5


class Known(NamedTuple):
    """The order spoken of last, and the user's address: the one the caller vouches for, or the one said before."""

    order: str | None
    email: str | None
    vouched: bool = False

    def address(self, message: str) -> str | None:
        """The address to work with: nobody talks themselves into another account when the caller vouches for theirs."""
        return self.email if self.vouched else reading.email(message) or self.email


async def known(context: AgentContext) -> Known:
    """What was known when this turn began.

    An agent that asks is run again from its start, and by then it has written what it learned into the state. Recorded as a
    step, the answer stays the same in every run, so that the same questions are asked in the same order.
    """
    vouched = context.message_context.attributes.get("email")
    email = vouched or context.state.get("user:email")
    now = {"order": context.state.get("last_order"), "email": email, "vouched": bool(vouched)}
    then = await context.step("known", lambda: now)
    assert isinstance(then, dict)
    return Known(**then)


async def email_meant(message: str, context: AgentContext, question: str) -> str:
    """The user's address: in the message, known, or asked for. It is remembered. Raises as `ask_for`."""
    email = (await known(context)).address(message)
    if email is None:
        email = await ask_for(context, question, read_email)
    context.state["user:email"] = email
    return email


def read_email(reply: Content) -> str:
    email = reading.email(reply.text)
    if email is None:
        raise Unusable("That does not look like an e-mail address. It should be like name@example.com.")
    return email


async def order_meant(message: str, context: AgentContext, question: str, *, last: bool = True, earlier: bool = False) -> Order:
    """The order that the message names; else, with `last`, the one spoken of last; else, with `earlier`, the one spoken of
    last in another conversation; else the one named when asked.

    It is remembered. Raises as `ask_for`.
    """
    before = await known(context)
    number = reading.order_number(message) or (before.order if last else None)
    if number is None and earlier and reading.email(message) is None:
        number = await _remembered_order(context)
    order = orders.order(number) if number else None
    if order is None:
        asking = _OrderQuestion(context)
        if number:
            question = _no_order(number)
        elif email := before.address(message):
            question = asking.offering(question, email)
        order = await ask_for(context, question, asking.read)
    context.state["last_order"] = order.id
    return order


async def _remembered_order(context: AgentContext) -> str | None:
    """The order that this customer named last, also in conversations of other days: codes in messages are remembered."""
    for thing in await context.memory.entities("code"):
        number = reading.order_number(thing.text)
        if number and orders.order(number):
            return number
    return None


class _OrderQuestion:
    """Reads the reply to the question for an order: its number, an address whose orders are then shown, or one of those."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._offered: list[Order] = []

    def offering(self, question: str, email: str) -> str:
        """The question with the latest orders of that account below it."""
        self._offered = orders.orders_of(email)[:SHOWN]
        return "\n".join([question, numbered(self._lines())]) if self._offered else question

    def read(self, reply: Content) -> Order:
        text = reply.text
        number = reading.order_number(text) or reading.bare_order_number(text)
        if number:
            order = orders.order(number)
            if order is None:
                raise Unusable(_no_order(number))
            return order
        place = reading.choice(text, self._lines())
        if place is not None:
            return self._offered[place]
        email = reading.email(text)
        if email is None:
            raise Unusable(f"I need the number of the order, or your e-mail address. {NUMBER_HINT}")
        self._context.state["user:email"] = email
        question = self.offering("Which of these is it?", email)
        if not self._offered:
            raise Unusable(f"I find no orders of {email}. What is the number of the order? {NUMBER_HINT}")
        raise Further(question)

    def _lines(self) -> list[str]:
        return [summary(order) for order in self._offered]


def _no_order(number: str) -> str:
    return f"I find no order {number}. {NUMBER_HINT} Which order is it?"


def summary(order: Order) -> str:
    """One line: number, state, what is in it."""
    items = ", ".join(f"{item.quantity} × {item.name}" if item.quantity > 1 else item.name for item in order.items)
    state = f"delivered {on(order.delivered_on)}" if order.delivered_on else f"placed {on(order.placed_on)}, {order.status}"
    return f"{order.id}, {state}: {items}"


async def item_meant(message: str, context: AgentContext, order: Order, question: str) -> Item:
    """The item of the order that the message names, or the only one, or the one named when asked. Raises as `ask_for`."""
    names = [item.name for item in order.items]
    if len(names) == 1:
        return order.items[0]
    place = reading.choice(message, names)
    if place is None:

        def read(reply: Content) -> int:
            chosen = reading.choice(reply.text, names)
            if chosen is None:
                raise Unusable(f"Which of these is it? The number is enough.\n{numbered(names)}")
            return chosen

        place = await ask_for(context, f"{question}\n{numbered(names)}", read)
    return order.items[place]


async def names_item(message: str, context: AgentContext) -> bool:
    """Whether the message names an item of the order spoken of last: "and the pan?"."""
    number = (await known(context)).order
    order = orders.order(number) if number else None
    return order is not None and reading.choice(message, [item.name for item in order.items]) is not None
