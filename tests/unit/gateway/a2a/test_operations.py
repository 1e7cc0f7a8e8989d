"""The operations have the signatures of the SDK's handlers, so that what stands on one can stand on them."""

import inspect

import pytest
from a2a.server.request_handlers.request_handler import RequestHandler

from turnwise.gateway.a2a.operations import Operations
from turnwise.gateway.a2a.routes import METHODS


@pytest.mark.parametrize("name", sorted(RequestHandler.__abstractmethods__))
def test_every_operation_is_there_as_the_sdk_has_it(name: str) -> None:
    theirs, ours = getattr(RequestHandler, name), getattr(Operations, name)
    told, known = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
    assert [*told] == [*known]
    assert [each.annotation for each in told.values()] == [each.annotation for each in known.values()]
    assert inspect.isasyncgenfunction(theirs) == inspect.isasyncgenfunction(ours)


def test_every_operation_is_asked_for_by_a_method() -> None:
    asked = {method.operation.__name__ for method in METHODS.values()}
    assert asked == set(RequestHandler.__abstractmethods__)
    for method in METHODS.values():
        assert inspect.isasyncgenfunction(method.operation) == method.streamed
        assert inspect.signature(method.operation).parameters["params"].annotation is method.params
