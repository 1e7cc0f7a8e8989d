"""The runner: one message through, and everything on record."""

from turnwise.runner.message.bringing import PastExchange
from turnwise.runner.message.invocation import Invocation, Result
from turnwise.runner.message.reading import Reading
from turnwise.runner.runner import Runner

__all__ = ["Invocation", "PastExchange", "Reading", "Result", "Runner"]
