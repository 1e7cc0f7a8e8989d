"""When a flow of a configuration file ends before all its tasks are complete."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from turnwise.config.document import kind_of
from turnwise.config.places import Document, Where
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.spelling import did_you_mean
from turnwise.flows.until import AllComplete, AnyComplete, AnyFailed, MaxModelCalls, MaxTurns, Until

_OF_TASKS: Mapping[str, Callable[..., Until]] = {"any_complete": AnyComplete, "any_failed": AnyFailed}
_LIMITS: Mapping[str, Callable[[int], Until]] = {"max_turns": MaxTurns, "max_model_calls": MaxModelCalls}
_PLAIN: Mapping[str, Callable[[], Until]] = {"all_complete": AllComplete, **_OF_TASKS}
_JOINED: Mapping[str, Callable[[Until, Until], Until]] = {"any": or_, "all": and_}
_KEYS = (*_OF_TASKS, *_LIMITS, *_JOINED)


def read_until(document: Document, where: Where, value: Any, tasks: Sequence[str] | None) -> Until | None:
    """The condition; None after what is wrong was reported. tasks: the names of those that it may ask for; None = nobody knows.

    `any_failed`, `any_complete` and `all_complete` by name, or keys and values: `any_failed: [task]`, `max_turns: 20`, and
    `any:` or `all:` with a list of conditions. Several keys, and a list, mean that one of them is enough.
    """
    if isinstance(value, str):
        if value in _PLAIN:
            return _PLAIN[value]()
        document.report(where, f"There is no condition {value!r}.", did_you_mean(value, [*_PLAIN, *_KEYS]), FlowDefinitionError)
        return None
    if isinstance(value, list) and value:
        return _joined([read_until(document, (*where, index), each, tasks) for index, each in enumerate(value)], or_)
    if isinstance(value, dict) and value:
        return _joined([_keyed(document, (*where, key), key, each, tasks) for key, each in value.items()], or_)
    found = "nothing" if value in ([], {}) else kind_of(value)
    problem = f"A condition is a name, or keys and values; this is {found}."
    document.report(where, problem, "Write `any_failed`, or `max_turns: 20`.", FlowDefinitionError)
    return None


def _keyed(document: Document, where: Where, key: str, value: Any, tasks: Sequence[str] | None) -> Until | None:
    if key in _LIMITS:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return _LIMITS[key](value)
        problem = f"{key!r} should be a whole number of 1 or more."
        document.report(where, problem, f"Write `{key}: 20`, for example.", FlowDefinitionError)
    elif key in _OF_TASKS:
        return _of_tasks(document, where, key, value, tasks)
    elif key in _JOINED:
        if isinstance(value, list) and value:
            found = [read_until(document, (*where, index), each, tasks) for index, each in enumerate(value)]
            return _joined(found, _JOINED[key])
        document.report(where, f"{key!r} should be a list of conditions.", "Write `- ` before each.", FlowDefinitionError)
    else:
        document.report(where, f"There is no condition {key!r}.", did_you_mean(key, _KEYS), FlowDefinitionError)
    return None


def _of_tasks(document: Document, where: Where, key: str, value: Any, tasks: Sequence[str] | None) -> Until | None:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        problem = f"{key!r} should be a list of tasks, but is {kind_of(value)}."
        document.report(where, problem, f"Write `{key}: [task]`.", FlowDefinitionError)
        return None
    unknown = [(index, name) for index, name in enumerate(names) if tasks is not None and name not in tasks]
    for index, name in unknown:
        at = (*where, index) if isinstance(value, list) else where
        document.report(at, f"There is no task {name!r} to wait for.", did_you_mean(name, tasks or ()), FlowDefinitionError)
    return None if unknown else _OF_TASKS[key](*names)


def _joined(found: Sequence[Until | None], join: Callable[[Until, Until], Until]) -> Until | None:
    """All of them as one; None when one is wrong, or there are none."""
    conditions = [each for each in found if each is not None]
    return reduce(join, conditions) if conditions and len(conditions) == len(found) else None
