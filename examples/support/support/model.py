"""The model behind the desk: the one that SUPPORT_MODEL names, else a stand-in that needs no key and no network."""

import os
import re
from typing import Any

from turnwise.models import ModelRequest
from turnwise.testing import FunctionModel, calls

_NUMBER = re.compile(r"\b\d{4}\b")
_WORDS = {"order": ("order", "parcel", "package"), "invoice": ("invoice",)}


def stand_in(request: ModelRequest) -> Any:
    """Plays a model by a few rules: calls a tool for a number, looks for a missing one in the memory, repeats results."""
    last, tools = request.messages[-1], {each.name for each in request.tools}
    results = {each.tool: str(each.result) for each in last.tool_results}
    thing = next((each for each in _WORDS if f"find_{each}" in tools), "")
    if "cancel_order" in results or f"find_{thing}" in results:
        return results.get("cancel_order") or results[f"find_{thing}"]
    if "recall" in results:
        known = re.search(rf"Asked about {thing} (\d+)", results["recall"])
        return calls(f"find_{thing}", {"number": known[1]}) if known else f"Which {thing} is it?"
    if not thing:
        return "Ask me about an order or an invoice."
    text = last.text.casefold()
    if not (numbers := _NUMBER.findall(text)):
        asks = any(word in text for word in _WORDS[thing])
        return calls("recall", {"query": f"Asked about {thing}"}) if asks else f"Ask me about an {thing}."
    if "cancel" in text and "cancel_order" in tools:
        return calls("cancel_order", {"number": numbers[-1]})
    noted = calls("remember", {"text": f"Asked about {thing} {numbers[-1]}."})
    return [calls(f"find_{thing}", {"number": numbers[-1]}), noted]


MODEL = os.environ.get("SUPPORT_MODEL") or FunctionModel(stand_in, name="stand-in")
