"""Who is to be notified of what becomes of a message, as somebody set it up."""

from pydantic import ConfigDict, Field

from turnwise.facts.callers import Caller
from turnwise.facts.fact import Fact


class PushConfig(Fact):
    """Where notifications go. id: unique for its message. token: sent along, for whoever gets them to know them by. scheme,
    credentials: sent as `Authorization`, if there is a scheme. caller: who set it up; no more is told than he may read. base:
    the gateway's URL as he knows it, without a slash at the end.

    The URL, the token and the credentials are secrets.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    id: str
    url: str = Field(repr=False)
    token: str = Field(default="", repr=False)
    scheme: str = ""
    credentials: str = Field(default="", repr=False)
    caller: Caller
    base: str = ""
