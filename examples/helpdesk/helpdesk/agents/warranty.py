"""Claims for what breaks after the days of return are over."""

import re

from helpdesk import clock, reading
from helpdesk.asking import Unusable, ask_for, attend
from helpdesk.meant import item_meant, names_item, order_meant
from helpdesk.shop import orders as shop
from helpdesk.wording import long_date, on
from turnwise import AgentContext, Content, agent

_ABOUT = re.compile(r"(?i)\b(?:warrant\w*|guarantee|repair\w*|claim\w*|covered)\b")


@agent(
    description="Checks whether an item is under warranty, and opens a claim for what broke.",
    examples=[
        "Does my blender have a warranty?",
        "How long is the guarantee on this heater?",
        "It worked for two months and now it is dead.",
        "The headphones stopped working after a while.",
        "I want to make a warranty claim.",
        "Can you repair my coffee maker?",
        "Is that covered by the guarantee?",
        "The screen went black half a year after I bought it.",
    ],
    tags=["orders"],
)
async def warranty(message: Content, context: AgentContext) -> str | None:
    return await attend(_warranty, message, context)


async def _warranty(message: Content, context: AgentContext) -> str | None:
    case = context.state.get("temp:warranty_case")
    if case:  # from the returns desk, which has asked all this
        order = shop.order(case["order"])
        assert order is not None
        item, fault = order.items[case["line"] - 1], str(case["fault"])
    else:
        text = message.text
        if not (_ABOUT.search(text) or reading.order_number(text) or reading.reason(text) or await names_item(text, context)):
            await context.transfer("orders")
            return None
        order = await order_meant(text, context, "In which order did you buy it? Its number, or your e-mail address.")
        item = await item_meant(text, context, order, "Which item is it?")
        fault = ""
    until = order.warranty_until(item)
    if until is None:
        return f"The {item.name} has no warranty."
    if until < clock.today():
        return f"The warranty of the {item.name} ended {on(until)}. A person can look at it all the same: just ask for one."
    if not fault:
        covered = f"The {item.name} of order {order.id} is under warranty until {long_date(until)}."
        fault = await ask_for(context, f"{covered} What is wrong with it? I open a claim; or say never mind.", _read_fault)
    number = await context.step(f"claim {order.id} {item.line}", lambda: shop.claim_warranty(order.id, item.line, fault))
    if number is None:
        return f"There is a claim for the {item.name} already. We write to {order.email} as soon as it is checked."
    return (
        f"Claim {number} is open for the {item.name} (warranty until {long_date(until)}). "
        f"You get a label at {order.email}; we repair or replace it within ten working days."
    )


def _read_fault(reply: Content) -> str:
    if len(re.findall(r"\w+", reply.text)) < 2:
        raise Unusable("Please say in a few words what is wrong with it.")
    return reply.text
