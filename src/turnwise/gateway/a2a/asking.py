"""Who asks for an operation: what the transports hand on, in the context that every operation gets."""

from typing import NamedTuple

from a2a.server.context import ServerCallContext

from turnwise.facts.callers import Caller
from turnwise.gateway.shown import View

_KEY = "turnwise"


class Asking(NamedTuple):
    """user: whom the request names; None = the caller. view: what the caller is shown. base: the URL of this gateway for him,
    without a slash at the end.
    """

    caller: Caller
    view: View
    user: str | None
    base: str

    def for_user(self, named: str | None) -> "Asking":
        """The same for whom the message itself names, if the request names nobody and the caller acts for users."""
        return self._replace(user=named) if self.user is None and self.caller.acts_for_users else self


def context_of(asking: Asking) -> ServerCallContext:
    """The context of an operation for whoever asks."""
    return ServerCallContext(state={_KEY: asking})


def asking_in(context: ServerCallContext) -> Asking:
    """Who asks."""
    asking: Asking = context.state[_KEY]
    return asking
