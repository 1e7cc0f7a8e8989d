"""Groups as messages in turn (behaviours D8, D9)."""

from logs import call, result

from turnwise.facts.content import Content, TextPart, ThinkingPart
from turnwise.transcript.compile import assemble_messages, problems
from turnwise.transcript.groups import Group, group_of
from turnwise.transcript.trimming import NOT_SHOWN, YOUR_TURN
from turnwise.transcript.view import tokens_of_parts


def said(*texts: str) -> Group:
    return group_of([TextPart(text=text) for text in texts], ())


def heard(*texts: str) -> Group:
    return group_of((), [TextPart(text=text) for text in texts])


def messages(*groups: Group) -> tuple[Content, ...]:
    made, tokens = assemble_messages(groups)
    assert problems(made) == []
    assert tokens == sum(tokens_of_parts(message.parts) for message in made)
    return made


def roles(made: tuple[Content, ...]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in made]


def test_neighbours_of_one_role_are_one_message() -> None:
    made = messages(heard("a"), heard("b"), said("c"), said("d"), heard("e"))
    assert roles(made) == [("user", "a\nb"), ("agent", "c\nd"), ("user", "e")]


def test_it_begins_and_ends_with_the_user() -> None:
    begin, end = NOT_SHOWN.text, YOUR_TURN.text
    assert roles(messages(said("a"))) == [("user", begin), ("agent", "a"), ("user", end)]
    assert roles(messages()) == [("user", end)]


def test_thinking_begins_a_message() -> None:
    thought = group_of([ThinkingPart(text="hm"), TextPart(text="b")], ())
    made = messages(heard("q"), said("a"), thought, heard("e"))
    assert roles(made) == [("user", "q"), ("agent", "a"), ("user", YOUR_TURN.text), ("agent", "b"), ("user", "e")]


def test_each_call_has_an_id_of_its_own() -> None:
    twice = group_of([call("k"), call("k")], [result("k", 1), result("k", 2)])
    again = group_of([call("k"), call("k-2")], [result("k", 3), result("k-2", 4)])
    made = messages(heard("q"), twice, again)
    assert [part.call_id for message in made for part in message.tool_calls] == ["k", "k-2", "k-3", "k-2-2"]
    assert [(part.call_id, part.result) for message in made for part in message.tool_results] == [
        ("k", 1),
        ("k-2", 2),
        ("k-3", 3),
        ("k-2-2", 4),
    ]
