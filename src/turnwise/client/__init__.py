"""A typed Python client for the gateway's REST API, with retries that never repeat an operation unsafely."""

from turnwise.client.client import Client
from turnwise.client.errors import Unreached
from turnwise.wire.messages import Answer

__all__ = ["Answer", "Client", "Unreached"]
