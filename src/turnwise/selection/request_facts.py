"""The facts that a decision depended on, for its record."""

import hashlib
from functools import lru_cache

from turnwise.facts.selections import RequestFacts
from turnwise.matching.language import ENGLISH, language_of
from turnwise.ports.selector import SelectionRequest

_PREVIOUS_RECORDED = 20


def facts_of(request: SelectionRequest, index: str) -> RequestFacts:
    """Returns the facts of a request.

    Args:
        request: The request.
        index: The version of the fitted texts; empty without selectors by meaning, which alone look at the language.
    """
    context = request.context
    language = language_of(request.text) if index else None
    return RequestFacts(
        eligible_count=len(request.eligible),
        eligible=_digest(request.eligible),
        index=index,
        direct_agent_id=context.direct_agent_id,
        previous_agents=context.previous_agents[-_PREVIOUS_RECORDED:],
        channel=context.channel,
        user_kind=context.user_kind,
        roles=context.roles,
        answers=context.answers,
        noted=request.noted,
        language=None if language == ENGLISH else language,
    )


@lru_cache(maxsize=256)
def _digest(names: tuple[str, ...]) -> str:
    return hashlib.blake2b("\n".join(names).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
