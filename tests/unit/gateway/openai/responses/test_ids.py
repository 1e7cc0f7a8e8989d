"""Ids that lead back to what they name."""

from datetime import UTC, datetime

from hypothesis import given, strategies as st

from turnwise.facts.events import Event
from turnwise.facts.ids import SystemIssuer
from turnwise.gateway.openai.responses.response import (
    CallId,
    ResponseId,
    created_at,
    new_message,
    parse_call_id,
    parse_response_id,
)
from turnwise.gateway.shared.packed_ids import new_session

IDS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200),
    st.sampled_from(["session", "message", "event", "call"]).map(SystemIssuer().new_id),
    st.builds("call-{}-{}".format, st.text("0123456789abcdef", min_size=28, max_size=28), st.integers(0, 120)),
    st.builds("call-{}-0{}".format, st.text("0123456789abcdef", min_size=28, max_size=28), st.integers(0, 9)),
)


def said(id_: str) -> Event:
    return Event(id=id_, author="desk", invocation_id="i", created_at=datetime.now(UTC))


@given(st.builds(ResponseId, IDS, IDS, st.none() | IDS), IDS)
def test_every_id_leads_back(name: ResponseId, other: str) -> None:
    ids = [name.id, name.item(said(other)), name.function(other), name.given(3)]
    assert [parse_response_id(id_) for id_ in ids] == [name] * 4
    assert parse_call_id(name.call(other)) == CallId(name.session, other, name.user)
    assert len({*ids, name.call(other)}) == 5


def test_ids_that_were_made_here_stay_short() -> None:
    name = ResponseId(new_session(), new_message())
    assert len(name.id) == 45
    assert len(name.call(SystemIssuer().new_id("call") + "-0")) == 47


@given(st.one_of(st.text(), st.sampled_from(["resp_", "msg_", "fc_", "call_"]).flatmap(lambda p: st.text().map(p.__add__))))
def test_what_was_not_made_here_names_nothing_else(text: str) -> None:
    name, call = parse_response_id(text), parse_call_id(text)
    assert name is None or name.id == text or not text.startswith("resp_")
    assert call is None or ResponseId(call.session, "m", call.user).call(call.id) == text


def test_an_id_that_was_tampered_with_is_none() -> None:
    id_ = ResponseId("s", "m").id
    for other in (
        id_[:-1],
        id_ + "A",
        id_ + "=",
        id_.replace("resp_", "msg_"),
        id_.upper(),
        "resp_" + "A" * 5000,
        "resp_é",
        "",
    ):
        assert parse_response_id(other) is None, other


def test_the_time_stands_in_the_ids_of_messages() -> None:
    before = datetime.now(UTC)
    made = created_at(new_message())
    assert made is not None
    assert abs((made - before).total_seconds()) < 60
    for other in ("m-1", "message-1", "session-" + "0" * 28, "message-" + "f" * 28, "message-" + "0" * 28 + "-1"):
        assert created_at(other) is None, other
