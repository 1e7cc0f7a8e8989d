"""What holds of every recorded value."""

import copy
import pickle

import pytest
from pydantic import ValidationError

from turnwise.facts.fact import Fact


class Inner(Fact):
    number: int = 0


class Outer(Fact):
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()


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
