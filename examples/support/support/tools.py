"""What the models may do. A model reads the tools' names, types and docstrings."""

from turnwise import tool

ORDERS = {"1001": "arrives tomorrow", "1002": "was delivered on Monday", "1003": "leaves on Friday"}
INVOICES = {"7001": "is paid", "7002": "is open until the end of the month"}


@tool
def find_order(number: str) -> str:
    """Tells where the order with that number is."""
    return f"Order {number} {ORDERS.get(number, 'is not known')}."


@tool(confirm=True)
def cancel_order(number: str) -> str:
    """Cancels the order with that number. The customer is asked first."""
    if ORDERS.get(number, "").startswith("leaves"):
        return f"Order {number} is cancelled."
    return f"Order {number} cannot be cancelled any more."


@tool
def find_invoice(number: str) -> str:
    """Tells whether the invoice with that number is paid."""
    return f"Invoice {number} {INVOICES.get(number, 'is not known')}."
