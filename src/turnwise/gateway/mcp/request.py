"""The caller of an MCP request, independent of method and transport."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from mcp.server.context import ServerRequestContext
from starlette.requests import Request

from turnwise.facts.callers import Caller
from turnwise.facts.errors import RequestError, TurnwiseError
from turnwise.gateway.front import Front, front_of
from turnwise.gateway.problems import Problem, headers_of, problem_of, status_of
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services import Services

Context = ServerRequestContext[Any, Any]


class McpRequest:
    """One request of one caller.

    Args:
        user: The user that the request names; None = the caller's own.
        request: The HTTP request; None over standard input.
    """

    def __init__(self, front: Front, caller: Caller, user: str | None = None, request: Request | None = None) -> None:
        self.front, self.caller, self.user = front, caller, user
        self._request = request

    @cached_property
    def services(self) -> Services:
        """The services for the caller and the named user."""
        return self.front.services(self.caller, self.user)

    @cached_property
    def view(self) -> Redactor:
        """Redacts events for the caller."""
        return Redactor(self.caller, self.front.runner.tree)

    def problem(self, error: TurnwiseError) -> Problem:
        """Converts an error to a problem of this request, and counts it in the metrics."""
        if self._request is not None:
            problem = problem_of(error, self._request)
        else:
            where = error.where if isinstance(error, RequestError) else ()
            problem = Problem(status_of(error.code), error.code, error.problem, error.fix, where, "", headers_of(error))
        if self.front.metrics is not None:
            self.front.metrics.count_error(problem.code)
        return problem


RequestFactory = Callable[[Context], McpRequest]
"""Creates the McpRequest for a call of the MCP library."""


def http_request(context: Context) -> McpRequest:
    """Returns the request of the caller that the HTTP middleware authenticated."""
    request = context.request
    assert isinstance(request, Request)
    return McpRequest(front_of(request), request.state.caller, request.query_params.get("user"), request)
