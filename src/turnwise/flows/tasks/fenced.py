"""What stands in a fence, the three backticks with which models set JSON apart from their words. Pure."""

import re

_FENCED = re.compile(r"^```[A-Za-z]*[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def unfenced(text: str) -> str:
    """What stands in the only fence of the text; the text, when it has none or several."""
    fenced: list[str] = _FENCED.findall(text)
    return fenced[0] if len(fenced) == 1 else text
