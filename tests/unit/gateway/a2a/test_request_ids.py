"""Ids of tasks that lead back to what they name."""

from hypothesis import given, strategies as st

from turnwise.gateway.a2a.request import TaskId, parse_task_id

IDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200)


@given(st.builds(TaskId, IDS, IDS, st.none() | IDS))
def test_every_id_leads_back(name: TaskId) -> None:
    assert parse_task_id(name.id) == name


@given(st.one_of(st.text(), st.text().map("task_".__add__)))
def test_what_was_not_made_here_names_nothing(text: str) -> None:
    name = parse_task_id(text)
    assert name is None or name.id == text


def test_what_could_be_no_id_of_ours_is_none() -> None:
    assert parse_task_id(TaskId("s", "m\0").id) is None
    assert parse_task_id(TaskId("s" * 201, "m").id) is None
    assert parse_task_id(TaskId("s", "m").id.replace("task_", "resp_")) is None
