"""Query parameters of our own API that a route does not know are refused; other doors follow their own specifications."""

from collections.abc import Callable

import pytest
from gateway_play import served
from responses_play import parrot

from turnwise import Runner

MakeRunner = Callable[..., Runner]


@pytest.mark.parametrize(
    "path", ["decisions", "sessions", "sessions/s", "sessions/s/events", "agents", "users/ann", "decisions?limit=1"]
)
async def test_a_parameter_that_is_not_known_is_refused(make_runner: MakeRunner, path: str) -> None:
    async with served(make_runner(parrot)) as gateway:
        await gateway.send_message("hi")
        joined = "&" if "?" in path else "?"
        answer = await gateway.get(f"/api/v1/{path}{joined}labell=x")
        if answer.status_code == 405:  # only written to
            answer = await gateway.delete(f"/api/v1/{path}{joined}labell=x")
        assert answer.status_code == 422, answer.text
        assert "labell" in answer.text


async def test_nothing_is_done_with_a_wrong_parameter(make_runner: MakeRunner) -> None:
    async with served(make_runner(parrot)) as gateway:
        answer = await gateway.send_message("hi", params={"usr": "bob"})
        assert answer.status_code == 422
        assert not (await gateway.front.runner.store.list(gateway.front.runner.app)).items
        await gateway.send_message("hi")
        assert (await gateway.delete("/api/v1/sessions/s", params={"forse": "1"})).status_code == 422
        assert (await gateway.get("/api/v1/sessions/s")).status_code == 200


async def test_known_parameters_and_other_doors_are_as_before(make_runner: MakeRunner) -> None:
    async with served(make_runner(parrot)) as gateway:
        await gateway.send_message("hi")
        assert (await gateway.get("/api/v1/sessions", params={"limit": 1})).status_code == 200
        assert (await gateway.get("/api/v1/sessions/s/events", params={"user": "local", "limit": 1})).status_code == 200
        for path in ("/v1/models", "/api/v1/health", "/api/v1/ready", "/docs"):
            assert (await gateway.get(path, params={"api-version": "1"})).status_code == 200, path
