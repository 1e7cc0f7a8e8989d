"""What browsers are to do with answers."""

from asgi_play import answering, asked, request

from turnwise.gateway.middleware.responses import CONTENT_POLICY, HEADERS, SecurityHeaders


async def test_every_answer_has_them() -> None:
    answer = await asked(SecurityHeaders(answering(404)), request("/x"))
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.headers["content-security-policy"] == CONTENT_POLICY


async def test_what_an_answer_says_itself_stays() -> None:
    own = ("Cache-Control", "no-cache"), ("Content-Security-Policy", "default-src 'self'")
    answer = await asked(SecurityHeaders(answering(200, *own)), request("/x"))
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-security-policy"] == "default-src 'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_web_socket_is_left_alone() -> None:
    answer = await asked(SecurityHeaders(answering()), request(kind="websocket"))
    assert answer.sent == [{"type": "websocket.accept"}]
