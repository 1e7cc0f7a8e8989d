"""Who asks: what of a request is the same whatever the method, and however it came."""

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

Context = ServerRequestContext[Any, Any]


class McpRequest:
    """user: whom the request names; None = the caller. request: None over standard input."""

    def __init__(self, front: Front, caller: Caller, user: str | None = None, request: Request | None = None) -> None:
        self.front, self.caller, self.user = front, caller, user
        self._request = request

    @cached_property
    def view(self) -> Redactor:
        """What the caller is shown."""
        return Redactor(self.caller, self.front.runner.tree)

    def problem(self, error: TurnwiseError) -> Problem:
        """The error as an answer to this request; it is counted."""
        if self._request is not None:
            problem = problem_of(error, self._request)
        else:
            where = error.where if isinstance(error, RequestError) else ()
            problem = Problem(status_of(error.code), error.code, error.problem, error.fix, where, "", headers_of(error))
        if self.front.metrics is not None:
            self.front.metrics.count_error(problem.code)
        return problem


RequestFactory = Callable[[Context], McpRequest]
"""Whose visit a request belongs to."""


def http_request(context: Context) -> McpRequest:
    """The visit of the caller who was let in with the HTTP request."""
    request = context.request
    assert isinstance(request, Request)
    return McpRequest(front_of(request), request.state.caller, request.query_params.get("user"), request)
