"""Bodies about what is kept: a client reads what a newer gateway says."""

import json

import pytest
from pydantic import BaseModel, ValidationError

from turnwise.wire.decisions import LabelDecision
from turnwise.wire.resources import AgentShown, ArtifactShown, CreateSession, ForkSession, SessionShown, Version

SESSION = {
    "id": "s",
    "user": "ann",
    "revision": 3,
    "last_sequence": 7,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:01Z",
    "busy": False,
    "queued": 0,
    "turns": 2,
}
ANSWERS: list[tuple[type[BaseModel], dict[str, object]]] = [
    (SessionShown, SESSION),
    (ArtifactShown, {"name": "a", "version": 1, "mime_type": "text/plain", "size": 2}),
    (AgentShown, {"name": "a", "description": "", "kind": "function", "children": [], "tags": [], "skills": []}),
    (Version, {"version": "0.1.0"}),
]


@pytest.mark.parametrize(("kind", "said"), ANSWERS, ids=[kind.__name__ for kind, _ in ANSWERS])
def test_an_answer_may_say_more_than_this_version_knows(kind: type[BaseModel], said: dict[str, object]) -> None:
    plain = kind.model_validate_json(json.dumps(said))
    assert kind.model_validate_json(json.dumps({**said, "newer": {"a": 1}})) == plain
    assert kind.model_validate_json(plain.model_dump_json()) == plain


@pytest.mark.parametrize("kind", [CreateSession, ForkSession, LabelDecision])
def test_a_request_may_not(kind: type[BaseModel]) -> None:
    """What is misspelled would else be ignored."""
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        kind.model_validate({"agent": None, "newer": 1} if kind is LabelDecision else {"newer": 1})
