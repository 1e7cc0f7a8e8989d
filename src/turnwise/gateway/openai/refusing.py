"""What of a request cannot be done, refused by the name of its parameter."""

from typing import Annotated

from pydantic import JsonValue, StringConstraints

from turnwise.facts.errors import RequestInvalid

Where = tuple[str | int, ...]
"""A place in the body."""
Metadata = dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]]


def refused(where: str | Where, problem: str, *, fix: str = "Leave it out.") -> RequestInvalid:
    """The error that names a parameter of the body."""
    return RequestInvalid(problem, fix=fix, where=("body", *((where,) if isinstance(where, str) else where)))


def check_form(form: JsonValue, where: Where) -> None:
    """RequestInvalid for an answer's form that is any other than text."""
    if form is not None and not (isinstance(form, dict) and form.get("type") == "text"):
        problem = "The form of an answer is its agent's: it cannot be given with a request."
        raise refused(where, problem, fix="Leave it out, or give the agent an output type.")


def no_probabilities(where: str) -> RequestInvalid:
    """The error for whoever asks how sure a model was of its words."""
    return refused(where, "Agents give no log probabilities.")
