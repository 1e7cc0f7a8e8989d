"""What the tests of configuration files share: a module of code beside the file, and messages without columns."""

import copy
import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_numbers = itertools.count()


@contextmanager
def module_in(folder: Path, code: str) -> Iterator[str]:
    """Writes a module; its name, which no other has had. In the end it is as if it had never been imported."""
    name = f"tw_module_{next(_numbers)}"
    (folder / f"{name}.py").write_text(code)
    before = list(sys.path)
    try:
        yield name
    finally:
        sys.path[:] = before
        sys.modules.pop(name, None)


def line_only(error: Exception) -> str:
    """The error's message with `file:line` in place of `file:line:column`."""
    return re.sub(r"(:\d+):\d+: ", r"\1: ", str(error), count=1)


RICH = r"""
app: shop
root: desk
x-budget: &budget {tokens: 4000, events: 100}
agents:
  - {name: desk, run: 'M:answer', roles: [staff], time_limit: 5.0}
  - M:other
  - name: asks
    kind: llm
    model: [{model: small, url: 'http://127.0.0.1:1/v1', key: k}, {import: 'M:model'}]
    instructions: Be short.
    tools: [ask_user, 'M:look', {agent: desk, description: d}, {mcp: {command: [a, b]}, only: [c], confirm: [c], seconds: 5}]
    output: builtins:int
    settings: {temperature: 0.2}
    history: *budget
    patterns: ['\bask\b', {regex: x, confidence: 0.5, label: l}]
    skills: [{name: s, examples: [e]}]
  - name: report
    kind: flow
    children: [{name: reader, run: 'M:answer'}]
    tasks:
      - {name: a, objective: o, result: {labels: [x, y]}}
      - {name: b, depends_on: [a], result: {schema: {type: object}}, tools: ['M:look'], run_if: always, interactive: true}
      - {name: c, parent: b, agents: [reader], result: builtins:int}
    strategy: {use: random, seed: 7}
    until: {any: [any_failed, {max_turns: 3}], any_failed: [a], max_model_calls: 50}
    side_by_side: 2
    targets: [b]
  - name: rounds
    kind: loop
    max_iterations: 3
    children: [{name: again, run: 'M:answer'}]
  - name: team
    kind: team
    selector: {selector: iterative, options: {order: [two, one]}}
    lead: one
    ends: escalated
    children: [{name: one, run: 'M:answer'}, {name: two, run: 'M:answer'}]
  - {name: both, kind: parallel, children: [{name: left, run: 'M:answer'}]}
policy:
  name: ours
  default: desk
  stages:
    - direct
    - {selector: patterns, options: {threshold: 0.7, margin: 0.1}}
    - {selector: model, name: ask, options: {model: {model: small, url: 'http://127.0.0.1:1/v1'}, choices: 3}}
    - {selector: always, options: {agent: desk}}
  segments:
    - {when: {channel: [web, app], user_kind: new}, options: {patterns: {threshold: 0.6}}, default: asks, name: n}
policies:
  plain: adk
  careful: {use: staples, options: {semantic: {threshold: 0.6}}, shadow: adk, shadow_may_ask: true}
  written: {name: w, stages: [direct]}
experiments:
  name: trial
  unit: user
  arms: {today: {}, careful: {policy: careful, weight: 2.0}}
  metric: answered
  alpha: 0.01
  ripe_seconds: 60.0
  paired: false
  stop: {worse_by: 0.1, least_units: 50}
encoder: {url: 'http://127.0.0.1:1/v1', model: m, key: k}
selectors: {always: {import: 'M:Always', options: {x: 1}}}
store: sqlite://
artifacts: {import: 'M:Files', options: {}}
limits: {turns: 3, tool_seconds: 1.5}
run: {when_busy: reject, streaming: false}
process: {concurrency: 7}
memory: {entities: short, working_seconds: 60.0, short_seconds: 90.0, model: 'openai:gpt-5', routing: false}
definitions: {environment: [HOME], makers: {mine: 'M:answer'}}
retention: {sessions: {days: 30, most: 9}, inbox: {days: 1}, users: {ann: {decisions: {days: 2}}}}
guardrails:
  - injection_marks
  - M:guard
  - {import: 'M:Guard', options: {a: 1}}
  - {use: length, message: 20, name: brief}
  - {use: personal_data, kinds: [card], action: block, places: [answer]}
  - {use: banned_topics, banned: [x], threshold: 0.7}
hooks: ['M:Watch', {import: 'M:Watch'}]
gateway:
  port: 9000
  origins: ['https://a.example']
  auth: {keys: true, jwt: {algorithms: [HS256], key: 'a secret of 32 bytes, or more of them'}}
  limits: {requests: 5}
  protocols: {openai: false, ag_ui: {questions: interrupt}, adk: true}
"""
"""A valid file with keys of every section. M stands for a module; its code is RICH_CODE."""
RICH_CODE = '''
from turnwise import agent
from turnwise.testing.models import ScriptedModel

model = ScriptedModel()

def answer(message): return message

@agent(name="other")
def other(message): return message

def look(place: str) -> str:
    """Looks."""
    return place
'''

Change = tuple[str, tuple[str | int, ...], Any]
"""What is done to one node of a file (`delete`, `rename` or `retype`), its location, and the file's data after that."""
OTHER_VALUES: tuple[Any, ...] = (3, "other", True, [], {}, ["other"], {"other": 1}, None)


def changes(data: Any, where: tuple[str | int, ...] = ()) -> Iterator[Change]:
    """Every deletion, renaming and other type of one node of some data."""
    node = at(data, where)
    for step in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        place = (*where, step)
        without, above = _copy(data, where)
        del above[step]
        yield "delete", place, without
        if isinstance(step, str):
            renamed, above = _copy(data, where)
            above[f"{step}x"] = above.pop(step)
            yield "rename", (*where, f"{step}x"), renamed
        for value in OTHER_VALUES:
            if type(value) is not type(node[step]):
                retyped, above = _copy(data, where)
                above[step] = value
                yield "retype", place, retyped
        yield from changes(data, place)


def at(data: Any, where: tuple[str | int, ...]) -> Any:
    """The value at a location."""
    for step in where:
        data = data[step]
    return data


def _copy(data: Any, where: tuple[str | int, ...]) -> tuple[Any, Any]:
    """A copy of the data, and what it has at a location."""
    copied = copy.deepcopy(data)
    return copied, at(copied, where)
