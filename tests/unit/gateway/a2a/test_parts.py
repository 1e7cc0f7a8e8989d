"""What is said, as parts."""

import pytest
from logs import event

from turnwise.facts.callers import Caller
from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart, ThinkingPart
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.gateway.a2a.messages import MOST_INLINE, File, PartWriter, referenced_files
from turnwise.gateway.redaction import Redactor

VIEW = Redactor(Caller(id="a", role="admin"), AgentTree([AgentCard(name="a")]))


def test_what_is_not_said_is_not_shown_to_anybody() -> None:
    parts = PartWriter(VIEW).of(event("a", ThinkingPart(text="hm"), DataPart(data=1, private=True), "Said."))
    assert [part.text for part in parts] == ["Said."]


def test_files_are_inline_up_to_a_bound_in_all() -> None:
    half = BlobPart(data=b"x" * (MOST_INLINE // 2), name="half")
    parts = PartWriter(VIEW).parts(Content(parts=(half, half, half, BlobPart(data=b""))))
    assert [part.WhichOneof("content") for part in parts] == ["raw", "raw", "text", "raw"]
    assert parts[2].text == f"[file: half, {MOST_INLINE // 2:,} bytes]"


def test_artifacts_are_inline_or_somewhere_or_only_named() -> None:
    files = {
        ("small", None): File("https://x/small", "text/plain", b"s"),
        ("large", 2): File("https://x/large", "text/plain"),
        ("nowhere", None): File("", "text/plain"),
    }
    names = (("small", None), ("large", 2), ("nowhere", None), ("missing", None), ("https://y/f", None))
    content = Content(parts=tuple(ArtifactPart(name=name, version=version) for name, version in names))
    small, large, nowhere, missing, elsewhere = PartWriter(VIEW, files).parts(content)
    assert (small.raw, large.url, elsewhere.url) == (b"s", "https://x/large", "https://y/f")
    assert (nowhere.text, missing.text) == ("[file: nowhere]", "[file: missing]")
    assert referenced_files([event("a", *content.parts), event("a", *content.parts), event("a")]) == list(names[:4])


@pytest.mark.parametrize(
    ("modes", "taken"),
    [
        ([], True),
        (["application/json"], True),
        (["APPLICATION/JSON; charset=utf-8"], True),
        (["application/*"], True),
        (["*/*"], True),
        (["text/plain"], False),
        (["image/png"], False),
    ],
)
def test_modes_that_the_reader_takes(modes: list[str], taken: bool) -> None:
    shown = PartWriter(VIEW, modes=modes)
    assert shown.accepts("application/json") == taken
    (part,) = shown.parts(Content(parts=(DataPart(data={"a": 1}),)))
    assert part.WhichOneof("content") == ("text" if modes == ["text/plain"] else "data")
