"""Branches: the places of agent runs within an invocation."""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

_ESCAPED = re.compile("%([0-9A-F]{2})")


def segment_of(name: str) -> str:
    """Returns a name as a segment of a branch. Escapes the special characters of branches, so names cannot forge one."""
    return "".join(f"%{ord(c):02X}" if c in "%/~>#" else c for c in name)


def name_of(segment: str) -> str:
    """Returns the agent's name in a segment: the inverse of `segment_of`, without the marks of parallel and private runs."""
    name = segment.lstrip("~>").partition("#")[0]
    return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), name)


class Branch(str):
    """The place of an agent run within its invocation: a path of segments joined by `/`.

    The first segment is the number of the turn. A segment with `~` is a child of a parallel agent; a segment with `>` is a
    privately called agent. The empty branch is outside of all runs, as users' events are. A branch is stored as its text.
    """

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())

    @classmethod
    def of_turn(cls, number: int) -> "Branch":
        """Returns the branch of the agent that has the turn with that number."""
        return cls(number)

    def child(self, segment: str) -> "Branch":
        """Returns the branch of a run that this run starts. `segment` may have several parts."""
        return Branch(f"{self}/{segment}")

    def private_call(self, agent: str, name: str) -> "Branch":
        """Returns the branch of the agent that this run calls privately. `name` tells its calls apart."""
        return self.child(f">{segment_of(agent)}#{segment_of(name)}")

    def step_key(self, key: str) -> str:
        """Returns the key under which a step of this run is recorded."""
        return f"{self}:{key}"

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments, topmost first. The empty branch has none."""
        return tuple(self.split("/")) if self else ()

    @property
    def last(self) -> str:
        """The last segment; empty for the empty branch."""
        return self.rpartition("/")[2]

    @property
    def parent(self) -> "Branch":
        """The branch of the run that started this one; empty for the run of a turn."""
        return Branch(self.rpartition("/")[0])

    @property
    def caller(self) -> "Branch":
        """The branch of the run that made the innermost private call above this run; empty when there is none."""
        return Branch(self.rpartition("/>")[0])

    @property
    def call_depth(self) -> int:
        """The number of private calls above this run."""
        return self.count("/>")

    @property
    def is_private(self) -> bool:
        """True if the run belongs to a privately called agent."""
        return "/>" in self

    @property
    def is_in_parallel(self) -> bool:
        """True if the run, or one above it, is a child of a parallel agent."""
        return any(segment.startswith("~") for segment in self.segments)

    def with_ancestors(self) -> Iterator["Branch"]:
        """Yields this branch and those above it, nearest first. Yields nothing for the empty branch."""
        branch = self
        while branch:
            yield branch
            branch = branch.parent

    def holds(self, other: "Branch") -> bool:
        """Returns whether `other` is this branch or below it. The empty branch holds only itself."""
        return other == self or other.startswith(f"{self}/")

    def below(self, above: "Branch") -> "Branch | None":
        """Returns the part of this branch below `above`; None if it is not below it."""
        return Branch(self.removeprefix(f"{above}/")) if self != above and above.holds(self) else None

    def is_of_turn(self, number: int) -> bool:
        """Returns whether the run is the turn with that number, or below it."""
        return Branch.of_turn(number).holds(self)

    def sees(self, other: "Branch") -> bool:
        """Returns whether the agent on this branch sees an event of the same invocation on the branch `other`.

        Children of one parallel agent see neither each other nor each other's calls. Later agents see everything except
        private calls (behaviour A41).
        """
        mine, theirs = self.segments, other.segments
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine, theirs, strict=False)))
        if shared < min(len(mine), len(theirs)) and mine[shared].startswith("~") and theirs[shared].startswith("~"):
            return False
        return not any(segment.startswith(">") for segment in theirs[shared:])


NO_BRANCH = Branch()
