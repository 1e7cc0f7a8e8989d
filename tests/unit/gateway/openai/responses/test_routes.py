"""How many tokens a request would be."""

from logs import event

from turnwise.gateway.openai.responses.input import read_input
from turnwise.gateway.openai.responses.routes import CountTokens, estimate_tokens


def estimate(*history: str, **given: object) -> int:
    body = CountTokens.model_validate(given)
    told = read_input(body.input, body.instructions)
    return estimate_tokens(body, told, [event("a", text) for text in history]).input_tokens


def test_all_that_is_said_counts() -> None:
    plain = estimate(input="a few words of text")
    assert 5 <= plain <= 12
    assert estimate("said before", "and again", input="a few words of text") > plain
    assert estimate(input="a few words of text", instructions="Be brief.") > plain
    assert estimate(input="a few words of text", tools=[{"type": "function", "name": "look"}]) > plain
    repeated = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    assert estimate(input=[*repeated, {"role": "user", "content": "a few words of text"}]) > plain


def test_nothing_is_nothing() -> None:
    assert estimate() == 0
