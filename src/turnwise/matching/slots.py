"""Finds a value in a message by a pattern, in time linear in the message (RE2)."""

import re2

from turnwise.facts.errors import PatternError
from turnwise.matching.normalize import composed
from turnwise.matching.patterns import MATCHED_CHARACTERS, PATTERN_CHARACTERS, PatternIndex

VALUE_CHARACTERS = 1_000
"""Values are cut to this length."""


class SlotPattern:
    """A pattern; its first group is the value; without a group, the whole match. Case makes no difference.

    Args:
        name: The name of the value, for error messages.
        regex: An RE2 expression.

    Raises:
        PatternError: RE2 refuses the pattern.
    """

    def __init__(self, name: str, regex: str) -> None:
        PatternIndex([(name, regex, 1.0)])  # explains what RE2 refuses
        options = re2.Options()
        options.case_sensitive, options.log_errors = False, False
        try:
            self._compiled = re2.compile(regex, options)
        except re2.error as error:
            problem = f"The pattern of the slot {name!r} cannot be used: it needs too much memory."
            raise PatternError(problem, fix=f"Shorten it; at most {PATTERN_CHARACTERS} characters are allowed.") from error

    def find(self, text: str) -> str | None:
        """Returns the value of the first match in the text's first 10,000 characters; None without a match."""
        found = self._compiled.search(composed(text[:MATCHED_CHARACTERS])[:MATCHED_CHARACTERS])
        if found is None:
            return None
        value = found.group(1) if self._compiled.groups else found.group(0)
        return value.strip()[:VALUE_CHARACTERS] or None if value is not None else None
