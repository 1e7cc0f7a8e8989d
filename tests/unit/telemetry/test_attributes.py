import pytest

from turnwise.facts.content import BlobPart, Content, TextPart, ToolCallPart
from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.facts.usage import Usage
from turnwise.telemetry import attributes as names


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("openai:gpt-5", "openai", "gpt-5"),
        ("google:gemini-3-pro", "gcp.gemini", "gemini-3-pro"),
        ("bedrock:anthropic.claude:0", "aws.bedrock", "anthropic.claude:0"),
        ("own", None, "own"),
        ("", None, None),
    ],
)
def test_models_are_called_as_the_conventions_call_them(model: str, provider: str | None, name: str | None) -> None:
    about = names.model_attributes(Usage(model=model))
    assert about.get(names.PROVIDER) == provider
    assert about.get(names.REQUEST_MODEL) == about.get(names.RESPONSE_MODEL) == name


def test_usage_says_no_more_than_is_known() -> None:
    assert names.usage_attributes(Usage(input_tokens=3, output_tokens=2)) == {
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
    }
    several = names.usage_attributes(Usage(cached_tokens=1, calls=3, cost=0.5))
    assert several["turnwise.model.calls"] == 3
    assert several["turnwise.model.cost_dollars"] == 0.5
    assert several["gen_ai.usage.cache_read.input_tokens"] == 1


def test_a_decision_keeps_its_reason_to_itself() -> None:
    selection = Selection(agent="a", method="m", confidence=0.5, reason="You said Rex.", segment="web", fingerprint="f")
    assert "Rex" not in str(names.decision_attributes(selection, content=False))
    assert names.decision_attributes(selection, content=True)["turnwise.selection.reason"] == "You said Rex."
    assert names.decision_attributes(selection, content=False)["turnwise.selection.segment"] == "web"


def test_the_course_of_a_decision_is_short() -> None:
    candidates = tuple(Candidate(agent=f"a{n}", score=0.5, evidence="You said Rex.") for n in range(50))
    verdicts = (Verdict(selector="one", ms=1.0), Verdict(selector="two", candidates=candidates, reason="Rex"))
    about = names.cascade_attributes(Selection(agent="a0", method="m", confidence=0.5, reason="", verdicts=verdicts))
    assert about["turnwise.selection.selectors"] == ["one", "two"]
    assert about["turnwise.selection.candidates"] == [f"a{n}" for n in range(names.CANDIDATES)]
    assert "Rex" not in str(about)
    assert (
        names.cascade_attributes(Selection(agent="a", method="m", confidence=1, reason=""))["turnwise.selection.candidates"]
        == []
    )


def test_what_is_said_has_the_form_of_the_conventions() -> None:
    parts = (TextPart(text="hi"), BlobPart(data=b"x"), ToolCallPart(call_id="c", tool="t", arguments={"a": 1}))
    event = Event(id="e", author="a", invocation_id="i", created_at=SystemIssuer().now(), content=Content(parts=parts))
    told = names.message_attributes("output", event)["gen_ai.output.messages"]
    assert told == (
        '[{"role": "assistant", "parts": [{"type": "text", "content": "hi"}, '
        '{"type": "tool_call", "id": "c", "name": "t", "arguments": {"a": 1}}]}]'
    )
    assert names.message_attributes("input", event.with_content(None)) == {}
