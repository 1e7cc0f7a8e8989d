"""The code that all tenants share: who answers when no agent of the tenant does, and what their definitions may use."""

from collections.abc import Callable


def front() -> str:
    """Answers what no agent of the tenant takes."""
    return "How can we help?"


def opening_hours(opens: int, closes: int) -> Callable[[], str]:
    """Makes an agent that tells when a tenant is open.

    Args:
        opens: The hour, 0 to 23.
        closes: The hour, 1 to 24.
    """

    def answer() -> str:
        return f"We are open from {opens} to {closes}."

    return answer
