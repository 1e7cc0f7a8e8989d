"""Figures in sentences: as a writer likes them, and as they are."""

import re

FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?")
_YEAR = re.compile(r"(?:19|20)\d\d")


def figures(text: str) -> list[str]:
    """The figures in a text that are no years, as they stand there."""
    found: list[str] = FIGURE.findall(text)
    return [figure for figure in found if not _YEAR.fullmatch(figure)]


def rounded(text: str) -> str:
    """The text with large figures made easy to read: 38,260 as `about 38,000`."""
    return FIGURE.sub(_easy, text)


def _easy(match: re.Match[str]) -> str:
    figure = match[0]
    whole = figure.replace(",", "")
    if "." in whole or len(whole) < 4 or _YEAR.fullmatch(figure):
        return figure
    step = 10 ** (len(whole) - 2)
    easy = round(int(whole) / step) * step
    return figure if easy == int(whole) else f"about {easy:,}"
