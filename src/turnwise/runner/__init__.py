"""The runner: one message through, and everything on record."""

from turnwise.runner.message.invocation import Invocation, Result
from turnwise.runner.runner import Runner
from turnwise.runner.sessions import InvocationStatus, PastExchange

__all__ = ["Invocation", "InvocationStatus", "PastExchange", "Result", "Runner"]
