"""Ids of agents and users may contain slashes: a path nevertheless names one resource, with its own methods."""

from collections.abc import Callable

import pytest
from gateway_play import served

from turnwise import Runner, agent

MakeRunner = Callable[..., Runner]
API = "/api/v1"


@agent
def desk() -> str:
    return "hello"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/agents/desk", {"GET", "HEAD", "PUT", "PATCH", "DELETE"}),
        ("/agents/team/desk", {"GET", "HEAD", "PUT", "PATCH", "DELETE"}),
        ("/agents/versions", {"GET", "HEAD", "PUT", "PATCH", "DELETE"}),
        ("/agents/team/desk/versions", {"GET", "HEAD"}),
        ("/agents/desk/versions/1", {"GET", "HEAD"}),
        ("/agents/desk/activate", {"POST"}),
        ("/agents/desk/rollback", {"POST"}),
        ("/agents/desk/examples", {"POST"}),
        ("/agents/team/desk/patterns", {"POST"}),
        ("/users/ann", {"DELETE"}),
        ("/users/idp/ann", {"DELETE"}),
        ("/users/idp/ann/export", {"GET", "HEAD"}),
        ("/users/idp/ann/memories", {"GET", "HEAD", "POST", "DELETE"}),
        ("/users/ann/memories/search", {"POST"}),
        ("/users/ann/memories/m-1", {"GET", "HEAD"}),
    ],
)
async def test_a_path_has_the_methods_of_its_resource(path: str, methods: set[str], make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as client:
        answer = await client.request("OPTIONS", API + path)
        assert answer.status_code == 405
        assert set(answer.headers["Allow"].split(", ")) == methods
