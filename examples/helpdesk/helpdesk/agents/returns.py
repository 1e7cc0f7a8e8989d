"""Sending an item back: which one, why, and how. The item's 30 days are checked, and a receipt is noted."""

import re

from helpdesk import clock, reading
from helpdesk.asking import Unusable, ask_for, attend
from helpdesk.files import attached
from helpdesk.meant import item_meant, names_item, order_meant
from helpdesk.patterns import ORDER, plain
from helpdesk.shop import orders as shop, stores
from helpdesk.shop.orders import Item, Order
from helpdesk.wording import listed, long_date, money, on
from turnwise import AgentContext, Content, agent

_BACK = r"(?:return|send back|give back|bring back|exchange)"
_PROGRESS = re.compile(r"(?i)\b(?:status of|what about|news (?:of|about)|how is) (?:my|the|that) returns?\b")
_ABOUT = re.compile(rf"(?i)\b(?:{_BACK}(?:s|ed|ing)?|sending|back|refund|money|label|exchang\w+)\b")
_REASONS = "broken, wrong item, not as described, or you changed your mind"


@agent(
    description="Takes items back: finds the order and the item, checks the 30 days, notes the reason and the receipt.",
    patterns=plain(
        rf"\b(?:return|send back|exchange)\b[^.?!]*{ORDER}",
        r"\b(?:status of|what about|news (?:of|about)) (?:my|the|that) returns?\b",
        means="sending something back with the order's number, or what became of it",
    ),
    examples=[
        "I would like to give something back.",
        "This does not fit, I want to exchange it.",
        "The mug was broken when I unpacked it.",
        "You sent me the wrong colour.",
        "How can I send an item back to you?",
        "I changed my mind and do not want to keep it.",
        "Give me my money back for this lamp.",
        "I would like a refund for something I bought.",
        "It came with a scratch.",
        "Open a return for me.",
        "Where do I get a label for sending it back?",
        "Has the thing that I sent back reached you?",
        "One part was missing in the box, so I want to return it.",
    ],
    tags=["orders"],
)
async def returns(message: Content, context: AgentContext) -> str | None:
    return await attend(_returns, message, context)


async def _returns(message: Content, context: AgentContext) -> str | None:
    if _PROGRESS.search(message.text):
        return await _progress(message.text, context)
    more = await names_item(message.text, context)
    if not (more or _ABOUT.search(message.text) or reading.reason(message.text) or reading.order_number(message.text)):
        await context.transfer("orders")
        return None
    return await _take_back(message, context, more=more)


async def _progress(message: str, context: AgentContext) -> str:
    order = await order_meant(message, context, "Which order is it from? Its number, or your e-mail address.")
    announced = shop.returns_of(order.id)
    if not announced:
        return f"Nothing of order {order.id} is announced to come back. Say `return {order.id}` to begin."
    names = {item.line: item.name for item in order.items}
    lines = [f"Return {given.id}, {names[given.line]}: {given.status} {on(given.created_on)}." for given in announced]
    return "\n".join(lines)


async def _take_back(message: Content, context: AgentContext, *, more: bool) -> str | None:
    order = await order_meant(message.text, context, "Which order is it from? Its number, or your e-mail address.", last=more)
    if order.delivered_on is None:
        advice = "say so and I cancel it" if order.status == "processing" else "tell me again once it is there"
        return f"Order {order.id} is not delivered, it is {order.status}. If you do not want it, {advice}."
    item = await item_meant(message.text, context, order, f"What do you want to send back from order {order.id}?")
    before = next((given.id for given in shop.returns_of(order.id) if given.line == item.line), None)
    # A step, because this turn announces it itself: run again after that, it must not take its own return for an older one.
    if announced := await context.step(f"announced before {order.id} {item.line}", lambda: before):
        return f"The {item.name} is on its way back already: return {announced}."
    files = attached(message)
    reason, note = await _reason(message.text, context, item, files)
    assert order.return_until
    if order.return_until < clock.today():
        return await _too_late(order, item, reason, note, context)
    way, place = await _way(context, files)
    receipt = files[-1] if files else None
    number = await context.step(
        f"announce {order.id} {item.line}",
        lambda: shop.announce_return(order.id, item.line, reason=reason, note=note, way=way, receipt=receipt),
    )
    noted = f" I noted your file {receipt}." if receipt else ""
    back = money(item.cents * item.quantity)
    said = f"Done: return {number} for the {item.name}, reason: {reason}.{noted} You get {back} back to {order.payment}."
    if way == "post":
        return f"{said} The label comes by mail; please send it by {long_date(order.return_until)}."
    # The store desk knows the hours; it is asked in private, the floor stays here.
    hours = await context.call("stores", f"Stores in {place}")
    return f"{said} Bring it with this number:\n{hours.text}"


async def _reason(message: str, context: AgentContext, item: Item, files: list[str]) -> tuple[str, str]:
    """The reason in one word for the books, and what the user said about it."""
    reason = reading.reason(message)
    if reason:
        return reason, message

    def read(reply: Content) -> tuple[str, str]:
        files.extend(attached(reply))
        if len(re.findall(r"[a-z]+", reply.text.lower())) == 0:
            raise Unusable(f"A word is enough: {_REASONS}.")
        return reading.reason(reply.text) or "other", reply.text

    question = f"Why does the {item.name} go back: {_REASONS}? If you have the receipt as a file, you can attach it."
    return await ask_for(context, question, read)


async def _too_late(order: Order, item: Item, reason: str, note: str, context: AgentContext) -> str | None:
    assert order.return_until
    over = f"The 30 days for the {item.name} were over {on(order.return_until)}, so I cannot take it back."
    if reason != "broken":
        return over
    await context.say(f"{over} But it may be under warranty: I hand you over to that desk.")
    context.state["temp:warranty_case"] = {"order": order.id, "line": item.line, "fault": note}
    await context.transfer("warranty")
    return None


async def _way(context: AgentContext, files: list[str]) -> tuple[str, str]:
    """`post`, or `store` with a town that has one."""
    towns = stores.towns()

    def read(reply: Content) -> tuple[str, str]:
        files.extend(attached(reply))
        town = reading.town(reply.text, towns)
        if town:
            return "store", town
        if re.search(r"\b(?:post|mail|label|ups|send)\b", reply.text, re.IGNORECASE):
            return "post", ""
        if re.search(r"\b(?:store|shop|bring|myself|drop)\b", reply.text, re.IGNORECASE):
            raise Unusable(f"Which town is good for you? We have stores in {listed(towns)}.")
        raise Unusable("By post, or to a store? If to a store, tell me the town.")

    return await ask_for(context, "How shall it come back: by post, or do you bring it to a store (which town)?", read)
