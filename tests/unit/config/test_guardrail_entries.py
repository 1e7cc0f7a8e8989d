"""The guardrails of a configuration file."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from config_play import line_only

from turnwise.config.app_file import GuardrailItem
from turnwise.config.document import read_document
from turnwise.config.part_entries import build_guardrail
from turnwise.config.validation import Section, validated
from turnwise.facts.content import Content, text_content
from turnwise.guardrails.topics import BannedTopics
from turnwise.ports.guardrail import GuardrailVerdict
from turnwise.testing.fake_encoder import BagOfWordsEncoder


class Holder(Section):
    guardrails: tuple[GuardrailItem, ...] = ()


def read(folder: Path, text: str) -> tuple[tuple[Any, ...], list[str]]:
    (folder / "t.yaml").write_text(f"guardrails: {text}\n")
    document = read_document(folder / "t.yaml", {})
    valid = validated(document, Holder)
    assert valid is not None
    holder, document = valid
    return holder.guardrails, [line_only(error).removeprefix(f"{folder}/") for error in document.problems]


async def verdict_of(given: Awaitable[GuardrailVerdict] | GuardrailVerdict) -> GuardrailVerdict:
    """A check may be async or not."""
    return await given if isinstance(given, Awaitable) else given


async def test_what_is_shipped_is_used_by_name(tmp_path: Path) -> None:
    text = (
        "\n  - personal_data\n  - {use: length, message: 20, name: brief}\n  - {use: secrets, action: block}\n"
        "  - injection_marks\n  - ours:guard\n"
    )
    entries, problems = read(tmp_path, text)
    assert problems == []
    assert entries[4] == "ours:guard"
    personal, brief, secrets, injection = (build_guardrail(entry, None) for entry in entries[:4])
    assert [guardrail.name for guardrail in (personal, brief, secrets, injection)] == [
        "personal-data", "brief", "secrets", "injection-marks",
    ]  # fmt: skip
    verdict: GuardrailVerdict = await verdict_of(personal.check("message", text_content("I am ada@example.com", "user"), None))
    assert isinstance(verdict.content, Content)
    assert verdict.content.text == "I am [e-mail]"
    assert (await verdict_of(brief.check("message", text_content("x" * 21, "user"), None))).action == "block"


def test_topics_go_by_the_encoder_of_the_app(tmp_path: Path) -> None:
    (entry,), problems = read(tmp_path, "[{use: banned_topics, banned: [who should I vote for], threshold: 0.7}]")
    assert problems == []
    assert isinstance(build_guardrail(entry, BagOfWordsEncoder()), BannedTopics)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("secrets", "t.yaml:1: 'guardrails' should be a list, but is text."),
        (
            "[personal-data]",
            "t.yaml:1: There is no guardrail 'personal-data'. Did you mean 'personal_data'? Or write an import",
        ),
        ("[3]", "t.yaml:1: Here an import path was expected."),
        ("[{message: 3}]", "t.yaml:1: Here a guardrail was expected, with the key 'use'."),
        ("\n  - use: length\n    mesage: 3", "t.yaml:3: There is no key 'mesage' here. Did you mean 'message'?"),
        ("\n  - use: length\n    message: 0", "t.yaml:3: 'message' should be greater than or equal to 1."),
        ("\n  - use: length\n    action: cut", "t.yaml:3: 'action' should be 'rewrite' or 'block'."),
        ("\n  - use: personal_data\n    kinds: [e-mial]", "t.yaml:3: 'kinds[0]' should be"),
        (
            "\n  - use: secrets\n    places: [answers]",
            "t.yaml:3: 'places[0]' should be 'message', 'tool_call', 'answer' or 'memory'.",
        ),
        ("[{use: banned_topics}]", "t.yaml:1: The key 'banned' is missing."),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, text: str, problem: str) -> None:
    _, (found,) = read(tmp_path, text)
    assert found.startswith(problem)
