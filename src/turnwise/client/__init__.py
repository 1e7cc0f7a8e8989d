"""A client of the gateway's own API: small, typed, and safe to try again."""

from turnwise.client.client import Client
from turnwise.client.retry import Unreached
from turnwise.wire.messages import Answer

__all__ = ["Answer", "Client", "Unreached"]
