"""What holds of every recorded value."""

import copy
import pickle
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from turnwise.facts.fact import Fact, replaced


class Inner(Fact):
    number: int = 0


class Outer(Fact):
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()


class Bounded(Fact):
    share: Annotated[float, Field(le=1.0)] = 0.0


class Row(BaseModel):
    number: int = 0
    names: list[str] = []


def test_made_in_code_a_misspelling_or_a_wrong_type_is_an_error() -> None:
    with pytest.raises(ValidationError, match="numbr"):
        Inner(numbr=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        Inner(number="1")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Outer(inners=[Inner()])  # type: ignore[arg-type]


def test_read_from_a_store_unknown_fields_are_kept_at_every_depth() -> None:
    written = '{"inner":{"number":1,"new":2},"inners":[{"number":3,"new":[4]}],"newer":{"x":5}}'
    assert Outer.model_validate_json(written).model_dump_json() == written


def test_what_was_read_can_stand_in_what_is_made() -> None:
    inner = Inner.model_validate_json('{"number":1,"new":2}')
    assert Outer(inner=inner).model_dump(mode="json") == {"inner": {"number": 1, "new": 2}, "inners": []}


def test_it_is_frozen_equal_by_value_and_copies() -> None:
    made = Outer(inner=Inner(number=1))
    with pytest.raises(ValidationError):
        made.inner = Inner()
    assert made == Outer(inner=Inner(number=1))
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_replace_changes_the_named_fields_and_shares_the_others() -> None:
    made = Outer(inner=Inner(number=1), inners=(Inner(),))
    changed = made.replace(inner=Inner(number=2))
    assert changed == Outer(inner=Inner(number=2), inners=(Inner(),))
    assert changed.inners is made.inners
    assert made.inner.number == 1
    assert made.replace() == made


# The ignored errors are part of the tests: `warn_unused_ignores` fails when mypy no longer finds the mistake.
def test_replace_refuses_an_unknown_field() -> None:
    with pytest.raises(TypeError, match=r"Inner has no field 'numbr'\. It has: number"):
        Inner().replace(numbr=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Inner has no field 'numbr'"):
        Inner().replace_valid(numbr=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Row has no field 'numbr'"):
        replaced(Row(), numbr=1)  # type: ignore[call-arg]


def test_replace_refuses_a_value_of_a_wrong_type() -> None:
    with pytest.raises(ValidationError, match=r"Inner\.number"):
        Inner().replace(number="1")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="Inner"):
        Outer().replace(inner=Outer())  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"Outer\.inners"):
        Outer().replace(inners=[Inner()])  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"Bounded\.share"):
        Bounded().replace(share=1.5)
    with pytest.raises(ValidationError, match=r"Row\.number"):
        replaced(Row(), number="one")  # type: ignore[arg-type]


def test_replace_keeps_what_a_newer_version_wrote_but_does_not_change_it() -> None:
    read = Inner.model_validate_json('{"number":1,"new":2}')
    assert read.replace(number=3).model_dump_json() == '{"number":3,"new":2}'
    with pytest.raises(TypeError, match="new"):
        read.replace(new=4)  # type: ignore[call-arg]


def test_a_subclass_is_replaced_by_a_subclass_and_knows_its_own_fields() -> None:
    class Deeper(Inner):
        word: str = ""

    assert Deeper(number=1).replace(word="x", number=2) == Deeper(number=2, word="x")
    with pytest.raises(TypeError, match="word"):
        Inner().replace(word="x")  # type: ignore[call-arg]


def test_replaced_validates_as_the_model_does_and_leaves_the_model() -> None:
    row = Row(names=["a"])
    assert replaced(row, number=2, names=["b"]) == Row(number=2, names=["b"])
    assert row == Row(names=["a"])


def test_replace_valid_shares_the_new_values() -> None:
    inners = (Inner(number=1),)
    assert Outer().replace_valid(inners=inners).inners is inners


def test_a_deep_copy_shares_nothing() -> None:
    made = Outer(inner=Inner(number=1))
    assert made.model_copy(deep=True) == made
    assert made.model_copy(deep=True).inner is not made.inner
