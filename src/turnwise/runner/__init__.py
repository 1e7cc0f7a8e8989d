"""The runner: takes a message, selects the agent that answers, runs it, and records everything."""

from turnwise.runner.message.invocation import Invocation, Result
from turnwise.runner.runner import Runner
from turnwise.runner.sessions import InvocationStatus, PastExchange

__all__ = ["Invocation", "InvocationStatus", "PastExchange", "Result", "Runner"]
