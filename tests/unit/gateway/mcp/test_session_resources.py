"""Names of what can be read."""

import pytest
from hypothesis import given, strategies as st

from turnwise.gateway.mcp.resources import ArtifactLink, SessionLink, parse_link

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
numbers = st.none() | st.integers(0, 2**63 - 1)


@given(ids, numbers)
def test_a_sessions_name_leads_back_to_it(session: str, before: int | None) -> None:
    link = SessionLink(session, before)
    assert parse_link(str(link)) == link


@given(ids, ids, numbers)
def test_an_artifacts_name_leads_back_to_it(session: str, name: str, version: int | None) -> None:
    link = ArtifactLink(session, name, version)
    assert parse_link(str(link)) == link


@given(st.text())
def test_whatever_it_is_it_is_read_or_not(text: str) -> None:
    parse_link(text)
    parse_link(f"turnwise://sessions/{text}")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "turnwise:",
        "turnwise://sessions",
        "turnwise://sessions/",
        "turnwise://sessions/s/",
        "turnwise://sessions/s/artifacts",
        "turnwise://sessions/s/artifacts/",
        "turnwise://sessions/s/artifacts/a/b",
        "turnwise://sessions/s/events/a",
        "turnwise://sessions//artifacts/a",
        "turnwise://users/s",
        "turnwise://u@sessions/s",
        "turnwise://[sessions/s",
        "http://sessions/s",
        "turnwise://sessions/s#x",
        "turnwise://sessions/s?version=1",
        "turnwise://sessions/s?before=",
        "turnwise://sessions/s?before=-1",
        "turnwise://sessions/s?before=1&before=2",
        "turnwise://sessions/s?before=9999999999999999999",
        "turnwise://sessions/s?before=٣",
        "turnwise://sessions/%ff",
        "turnwise://sessions/" + "s" * 8_000,
    ],
)
def test_what_is_no_name_of_ours(uri: str) -> None:
    assert parse_link(uri) is None
