"""Where an order is, when it comes, and stopping one that has not left."""

import re

from helpdesk import clock, reading
from helpdesk.agents.returns import returns
from helpdesk.agents.warranty import warranty
from helpdesk.asking import ask_for, attend, read_yes_or_no
from helpdesk.meant import email_meant, order_meant, summary
from helpdesk.patterns import ORDER, likely, plain
from helpdesk.shop import orders as shop
from helpdesk.shop.orders import Order
from helpdesk.wording import money, numbered, on
from turnwise import AgentContext, Content, agent

_THING = r"(?:orders?|packages?|parcels?|deliver(?:y|ies)|shipments?)"
_MONEY = re.compile(r"(?i)\b(?:refund(?:ed)?|money|charged?|paid|pay|invoice|bill(?:ed)?)\b")
_LIST = re.compile(r"(?i)\b(?:my|all|other|list|show|which) (?:\w+ )?orders\b")
_CANCEL = re.compile(r"(?i)\b(?:cancel|call off|stop (?:it|the order|my order))\b")
_WHEN = re.compile(r"(?i)\bwhen\b|\bhow long\b|\bwhich day\b")
_ABOUT = re.compile(
    rf"(?i)\b(?:{_THING}|arriv\w*|come|coming|here|track\w*|carrier|ship\w*|deliver\w*|status|late|when|where|it|one)\b"
)


@agent(
    description="Says where an order is and when it arrives, lists a customer's orders, cancels one that has not left.",
    patterns=[
        *plain(
            rf"\bwhere\b[^.?!]*{ORDER}",
            rf"\b(?:track|cancel|stop|status of)\b[^.?!]*{ORDER}",
            means="where an order is, or cancelling it, with its number",
        ),
        *likely(rf"^\W*(?:it'?s |my )?(?:order )?(?:number |no\.? )?(?:is )?#?{ORDER}\W*$", means="an order number"),
    ],
    examples=[
        "Where is my parcel?",
        "When does my order come?",
        "It was supposed to be here yesterday and is not.",
        "My package seems to be lost.",
        "Has my order left the warehouse?",
        "What is the tracking number?",
        "Which carrier brings it?",
        "Follow the shipment of my order.",
        "Please cancel what I ordered.",
        "I do not want the order any more, stop it.",
        "What have I ordered so far?",
        "Give me a list of all my purchases.",
        "What is the state of my order?",
        "Did you ship it already?",
    ],
    tags=["orders"],
    children=[returns, warranty],
)
async def orders(message: Content, context: AgentContext) -> str | None:
    return await attend(_orders, message, context)


async def _orders(message: Content, context: AgentContext) -> str | None:
    text = message.text
    cancels, number = _CANCEL.search(text) is not None, reading.order_number(text)
    if not cancels and _MONEY.search(text):
        await context.transfer("billing")
        return None
    if number is None and not cancels and not _ABOUT.search(text):
        await context.transfer("supervisor")
        return None
    if _LIST.search(text) and number is None:
        return await _list(text, context)
    question = "Which order is it? Its number, or your e-mail address, is enough."
    order = await order_meant(text, context, question, earlier=not cancels)
    if cancels:
        return await _cancel(order, context)
    return _arrival(order) if _WHEN.search(text) and not number else _status(order)


async def _list(message: str, context: AgentContext) -> str:
    email = await email_meant(message, context, "Under which e-mail address did you order?")
    found = shop.orders_of(email)
    if not found:
        return f"I find no orders of {email}. Perhaps you used another address?"
    context.state["last_order"] = found[0].id
    more = f"\nThere are {len(found) - 5} older ones." if len(found) > 5 else ""
    return f"Your orders, newest first:\n{numbered([summary(order) for order in found[:5]])}{more}"


def _arrival(order: Order) -> str:
    """The short answer to "and when?": the rest was said before."""
    if order.delivered_on:
        return f"It arrived {on(order.delivered_on)}."
    if order.expected_on and order.expected_on >= clock.today():
        return f"{order.id} should arrive {on(order.expected_on)}."
    return _status(order)


def _status(order: Order) -> str:
    today = clock.today()
    sent = f"{order.carrier} {order.tracking}"
    match order.status:
        case "processing":
            expected = f" It should arrive {on(order.expected_on)}." if order.expected_on else ""
            return f"Order {order.id} is being packed, it has not left yet.{expected} You can still cancel it."
        case "shipped" | "out for delivery":
            assert order.expected_on
            assert order.shipped_on
            if order.expected_on < today:
                return (
                    f"Order {order.id} is late, I am sorry: it left {on(order.shipped_on)} with {sent} and was expected "
                    f"{on(order.expected_on)}. If it is not there in two days, ask for a person and we send a new one."
                )
            where = "is out for delivery" if order.status == "out for delivery" else f"left {on(order.shipped_on)}"
            return f"Order {order.id} {where} with {sent}. It should arrive {on(order.expected_on)}."
        case "delivered":
            assert order.delivered_on
            return f"Order {order.id} was delivered {on(order.delivered_on)} by {order.carrier} ({order.tracking})."
        case "returned":
            return f"Order {order.id} came back to us. Ask about its refund if you want to know where the money is."
        case _:
            return f"Order {order.id} was cancelled. Ask about its refund if you want to know where the money is."


async def _cancel(order: Order, context: AgentContext) -> str | None:
    if not await context.step(f"can cancel {order.id}", lambda: order.status == "processing"):
        after = "You can send it back once it is there." if order.delivered_on is None else "You can return it within 30 days."
        stands = "was cancelled before" if order.status == "cancelled" else f"cannot be cancelled: it is {order.status}"
        return f"Order {order.id} {stands}." + (f" {after}" if order.status != "cancelled" else "")
    names = ", ".join(item.name for item in order.items)
    sure = await ask_for(
        context, f"Cancel order {order.id} ({names}, {money(order.total)})? Please say yes or no.", read_yes_or_no
    )
    if not sure:
        return f"Order {order.id} stays as it is."
    if not await context.step(f"cancel {order.id}", lambda: shop.cancel(order.id)):
        return f"Order {order.id} has just left, so it cannot be cancelled any more. You can send it back once it is there."
    await context.say(f"Order {order.id} is cancelled. My colleague tells you about the money.")
    context.state["temp:topic"] = "refund"
    await context.transfer("billing")
    return None
