from turnwise.selection.contextual.wording import AgentNames, stem


def test_stems_of_common_endings() -> None:
    assert stem("Orders") == stem("order")
    assert stem("billing") == stem("billings")
    assert stem("deliveries") == stem("delivery")
    assert stem("bus") == "bus"


def test_a_name_is_found_by_its_words() -> None:
    """C9"""
    names = AgentNames(("billing", "RideSharing", "tech_support"))
    assert names.named(("let", "me", "talk", "to", "billing")) == {"billing": 1.0}
    assert names.named(("ride", "sharing", "please")) == {"RideSharing": 1.0}
    assert names.named(("some", "support"))["tech_support"] == 0.5


def test_a_word_that_several_names_have_counts_less() -> None:
    names = AgentNames(("card_lost", "card_stolen"))
    assert names.named(("card",)) == {"card_lost": 0.25, "card_stolen": 0.25}


def test_a_word_that_very_many_names_have_does_not_count() -> None:
    names = AgentNames(tuple(f"card {word}" for word in "abcdefghijklmnopqrstuvwxyz"))
    assert "card a" not in names.named(("card",))


def test_no_name_is_in_other_words() -> None:
    assert not AgentNames(("orders",)).named(("hello", "there"))
