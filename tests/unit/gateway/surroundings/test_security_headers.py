"""What browsers are to do with answers."""

from asgi_play import answering, asked, request

from turnwise.gateway.surroundings.security_headers import HEADERS, NOTHING, SWAGGER, SecurityHeaders


async def test_every_answer_has_them() -> None:
    answer = await asked(SecurityHeaders(answering(404), "/docs"), request("/x"))
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["content-security-policy"] == NOTHING


async def test_the_page_of_the_documentation_may_load_what_it_is_made_of() -> None:
    app = SecurityHeaders(answering(), "/docs")
    assert (await asked(app, request("/docs"))).headers["content-security-policy"] == SWAGGER
    assert (await asked(app, request("/docs/x"))).headers["content-security-policy"] == NOTHING


async def test_what_an_answer_says_itself_stays() -> None:
    own = ("Cache-Control", "no-cache"), ("Content-Security-Policy", "default-src 'self'")
    answer = await asked(SecurityHeaders(answering(200, *own), "/docs"), request("/docs"))
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-security-policy"] == "default-src 'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_web_socket_is_left_alone() -> None:
    answer = await asked(SecurityHeaders(answering(), "/docs"), request(kind="websocket"))
    assert answer.sent == [{"type": "websocket.accept"}]
