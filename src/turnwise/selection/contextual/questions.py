"""The kind of an agent's last question: a decision, a time, a number, a place, a name, or a choice. English words only."""

import re

YES_OR_NO = "yesno"
_SENTENCES = re.compile(r"[^.!?\n]+[.!?]?")
_KINDS = (
    (
        YES_OR_NO,
        r"\A(?:ok|okay|sure|great|and|so|then|but|well|also|right|now)?,? ?"
        r"(?:do|does|did|is|are|was|would|shall|should|can|could|will|have|has|may|want|anything|any other)\b",
    ),
    ("when", r"\b(?:when|(?:what|which) (?:time|day|date)|how soon|(?:time|date) (?:for|of|would)?)\b"),
    ("count", r"\b(?:how (?:many|much|long|old|big)|number of|what (?:number|amount|quantity|size))\b"),
    ("where", r"\b(?:where|(?:what|which) (?:city|area|place|location|station|country)|location|address)\b"),
    ("who", r"\b(?:who|whose|what name|your name)\b"),
    ("which", r"\b(?:which|what|what's|how|why)\b"),
    (YES_OR_NO, r"\b(?:confirm|correct|right|okay|ok|sound|work for you)\b"),
)
_WORDS = tuple((kind, re.compile(words)) for kind, words in _KINDS)


def last_question(text: str) -> str:
    """Returns the text's last sentence with a question mark, or else its last sentence."""
    sentences = [each.strip() for each in _SENTENCES.findall(text) if each.strip()]
    return next((each for each in reversed(sentences) if each.endswith("?")), sentences[-1] if sentences else "")


def question_kind(folded: str) -> str:
    """Returns what the last question of a case-folded text asks for: yesno, when, count, where, who, which, or nothing.

    A last sentence with a question's words counts without the mark.
    """
    asked = last_question(folded)
    return next((kind for kind, words in _WORDS if words.search(asked)), "")
