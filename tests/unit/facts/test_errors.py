"""The error tree: drawn as it is, and every code its own."""

import re

from turnwise.facts import errors
from turnwise.facts.errors import LimitReached, MissingExtra, TransferRefused, TurnwiseError
from turnwise.facts.hints import install_command


def every(branch: type[TurnwiseError]) -> list[type[TurnwiseError]]:
    return [branch, *(leaf for each in branch.__subclasses__() if each.__module__ == errors.__name__ for leaf in every(each))]


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    drawn: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)", line)
        if found and (found[2] == "TurnwiseError" or found[1]):
            depth = len(found[1]) // 4
            above[depth:] = [found[2]]
            drawn[found[2]] = above[depth - 1] if depth else None
    real = {each.__name__: each.__base__.__name__ if each is not TurnwiseError else None for each in every(TurnwiseError)}  # type: ignore[union-attr]
    assert drawn == real


def test_every_class_has_a_code_of_its_own_below_its_branch() -> None:
    classes = every(TurnwiseError)
    codes = [each.__dict__.get("code") for each in classes]
    assert None not in codes
    assert len(set(codes)) == len(codes)
    for each in classes:
        assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", each.code)
        branch = (
            next(b for b in each.__mro__[::-1] if issubclass(b, TurnwiseError) and b is not TurnwiseError)
            if each is not TurnwiseError
            else each
        )
        assert each.code.split(".")[0] == branch.code


def test_the_text_is_the_problem_and_the_fix() -> None:
    assert str(TurnwiseError("It broke.")) == "It broke."
    assert str(TurnwiseError("It broke.", fix="Mend it.")) == "It broke. Mend it."


def test_errors_that_know_more_say_it() -> None:
    assert install_command(["s3"]) in str(MissingExtra("The artifact store", "s3"))
    assert "a, b" in str(TransferRefused("No.", allowed=("a", "b")))
    assert TransferRefused("No.").allowed == ()
    assert LimitReached("turns", "Too many.").which == "turns"
    assert "limits.turns" in str(LimitReached("turns", "Too many."))
