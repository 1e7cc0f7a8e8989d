"""The runner: one message through, and everything on record."""

from turnwise.runner.message.invocation import Invocation, Result
from turnwise.runner.runner import Runner

__all__ = ["Invocation", "Result", "Runner"]
