"""Refunds, invoices, and what was charged."""

import re

from helpdesk import invoice, reading
from helpdesk.agents.gift_cards import gift_cards
from helpdesk.asking import attend
from helpdesk.meant import known, order_meant
from helpdesk.patterns import ORDER, plain
from helpdesk.shop import billing as shop, orders as order_desk
from helpdesk.shop.billing import Refund
from helpdesk.shop.orders import Order
from helpdesk.wording import listed, money, on
from turnwise import AgentContext, Content, agent

_INVOICE = re.compile(r"(?i)\b(?:invoice|receipt|bill)s?\b")
_CHARGE = re.compile(r"(?i)\b(?:charged?|billed|twice|double|paid|pay(?:ment)?|cost)\b")
_ABOUT = re.compile(
    r"(?i)\b(?:refund\w*|money|back|account|card|long|when|where|which|how|it|arrive|cancel\w*|return\w*|order|that|paypal)\b"
)


@agent(
    description="Knows where a refund is, writes invoices, looks into what was charged.",
    patterns=plain(rf"\binvoice\b.*{ORDER}", means="the invoice for an order"),
    examples=[
        "When does the money come back to my card?",
        "Has my refund been paid out yet?",
        "My refund has not arrived on my account.",
        "How long do refunds take?",
        "Please send me an invoice for my company.",
        "I need a receipt for my taxes.",
        "E-mail me the receipt, please.",
        "Can I get a copy of the bill?",
        "The same order was billed two times.",
        "There is a charge on my card I do not understand.",
        "Why did you take more than the price?",
        "How did I pay for this order?",
        "What did I pay in all?",
    ],
    tags=["money"],
    children=[gift_cards],
)
async def billing(message: Content, context: AgentContext) -> str | None:
    return await attend(_billing, message, context)


async def _billing(message: Content, context: AgentContext) -> str | None:
    text = message.text
    if reading.gift_card(text):
        await context.transfer("gift_cards")
        return None
    # Who hands over after a question says what it is about: the user's last message is then the reply, such as "yes".
    topic = context.state.get("temp:topic") or _topic(text)
    if topic is None:
        await context.transfer("supervisor")
        return None
    order = await order_meant(text, context, "Which order is it about? Its number, or your e-mail address.")
    if topic == "invoice":
        return await _invoice(order, context)
    if topic == "charge":
        return _charge(order)
    return await _refund(order, context)


def _topic(message: str) -> str | None:
    if _INVOICE.search(message):
        return "invoice"
    if _CHARGE.search(message):
        return "charge"
    return "refund" if _ABOUT.search(message) or reading.order_number(message) else None


async def _refund(order: Order, context: AgentContext) -> str:
    refunds = shop.refunds(order.id)
    if refunds:
        return "\n".join(_refund_line(refund) for refund in refunds)
    announced = order_desk.returns_of(order.id)
    if announced:
        return (
            f"Return {announced[-1].id} of order {order.id} is announced. The money goes to {order.payment} within five days "
            "after the parcel is back with us."
        )
    email = (await known(context)).email
    others = [refund for refund in shop.refunds_of(email) if refund.order_id != order.id] if email == order.email else []
    if others:
        return f"There is no refund for order {order.id}. " + _refund_line(others[-1])
    advice = "cancel it" if order.status == "processing" else f"say `return {order.id}`"
    return f"There is no refund for order {order.id}: it is {order.status}. If you want your money back, {advice}."


def _refund_line(refund: Refund) -> str:
    what = f"The refund for order {refund.order_id}, {money(refund.cents)},"
    if refund.status == "paid":
        return f"{what} was paid to {refund.method} {on(refund.expected_on)}."
    return f"{what} was asked for {on(refund.requested_on)}. It should be on {refund.method} {on(refund.expected_on)}."


def _charge(order: Order) -> str:
    twins = shop.same_purchases(order.id)
    if twins:
        return (
            f"I see it: order {order.id} and {listed(twins)} have the same items on the same day, {money(order.total)} each. "
            f"If that was a mistake, say `cancel order {twins[-1]}`."
        )
    once = f"Order {order.id} was charged once, {money(order.total)} to {order.payment}."
    return " ".join([once, *(_refund_line(refund) for refund in shop.refunds(order.id))])


async def _invoice(order: Order, context: AgentContext) -> str:
    if order.status in {"processing", "cancelled"}:
        return f"Order {order.id} is {order.status}. There is an invoice once it has shipped."
    name = await invoice.save(order, context)
    return f"Here is the invoice for order {order.id} over {money(order.total)}: I saved it to your files as {name}."
