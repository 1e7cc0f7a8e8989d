"""What a client of AG-UI demands of the order of events, and what it makes of them, in short: `verifyEvents` and
`defaultApplyEvents` of @ag-ui/client 1.0.0.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from ag_ui.core import Event
from pydantic import TypeAdapter

Wire = dict[str, Any]
MODEL: TypeAdapter[Any] = TypeAdapter(Event)
OPENS = {"TEXT_MESSAGE": "messageId", "REASONING_MESSAGE": "messageId", "REASONING": "messageId", "TOOL_CALL": "toolCallId"}


class Wrong(Exception):
    """The client would give up."""


class Client:
    """Takes the events of a stream, one after the other. messages, state: what it has then."""

    def __init__(self, messages: Sequence[Wire] = (), state: Any = None) -> None:
        self.messages: list[Wire] = copy.deepcopy(list(messages))
        self.state = copy.deepcopy(state)
        self.interrupts: list[Wire] = []
        self._running = self._begun = False
        self._open: dict[str, set[str]] = {kind: set() for kind in OPENS}
        self._owners: dict[tuple[str, str], str | None] = {}
        self._steps: set[tuple[str | None, str]] = set()
        self._active: set[str] = set()
        self._over: set[str] = set()

    def take(self, wires: Iterable[Wire]) -> "Client":
        for wire in wires:
            MODEL.validate_python(wire)
            self._check_null(wire)
            self._order(wire)
            self._apply(wire)
        return self

    def _check_null(self, wire: Wire) -> None:
        for name, value in wire.items():
            if value is None:
                raise Wrong(f"{wire['type']}.{name} is null")

    def _order(self, wire: Wire) -> None:
        type_ = wire["type"]
        if type_ == "RUN_STARTED":
            if self._running:
                raise Wrong("a run within a run")
            self._running = self._begun = True
            return
        if not self._running and not (type_ == "RUN_ERROR" and not self._begun):
            raise Wrong(f"{type_} outside of a run")
        kind, _, act = type_.rpartition("_")
        if kind in OPENS:
            self._bracketed(kind, act, wire)
        elif kind == "STEP":
            self._step(act, wire)
        elif kind == "SUBAGENT":
            self._subagent(act, wire)
        elif type_ == "RUN_FINISHED":
            left = [*self._steps, *self._active, *(id_ for ids in self._open.values() for id_ in ids)]
            if left:
                raise Wrong(f"still open at the end: {left}")
        if type_ in ("RUN_FINISHED", "RUN_ERROR"):
            self._running = False

    def _bracketed(self, kind: str, act: str, wire: Wire) -> None:
        id_, tag, open_ = wire[OPENS[kind]], wire.get("subagentRunId"), self._open[kind]
        if (kind, act) == ("TOOL_CALL", "RESULT"):
            self._owners["TEXT_MESSAGE", wire["messageId"]] = tag
            return
        owned = (kind.replace("REASONING_MESSAGE", "REASONING"), id_)
        if tag is not None and owned in self._owners and self._owners[owned] != tag:
            raise Wrong(f"{id_} is another's")
        if act == "START":
            if id_ in open_:
                raise Wrong(f"{id_} is open already")
            parent = wire.get("parentMessageId")
            if parent is not None and self._owners.get(("TEXT_MESSAGE", parent), tag) != tag:
                raise Wrong(f"{id_} is called in another's message")
            open_.add(id_)
            self._owners.setdefault(owned, tag)
        elif id_ not in open_:
            raise Wrong(f"{wire['type']} of {id_}, which is not open")
        elif act == "END":
            open_.remove(id_)

    def _step(self, act: str, wire: Wire) -> None:
        step = (wire.get("subagentRunId"), wire["stepName"])
        if (step in self._steps) is (act == "STARTED"):
            raise Wrong(f"step {step} is {act}")
        self._steps ^= {step}

    def _subagent(self, act: str, wire: Wire) -> None:
        id_ = wire["subagentRunId"]
        if act == "STARTED":
            parent = wire.get("parentSubagentRunId")
            if id_ in self._active | self._over or (parent is not None and parent not in self._active | self._over):
                raise Wrong(f"subagent {id_} is started")
            self._active.add(id_)
        elif id_ not in self._active:
            raise Wrong(f"subagent {id_} is not active")
        else:
            self._active.remove(id_)
            self._over.add(id_)

    def _apply(self, wire: Wire) -> None:
        match wire["type"]:
            case "TEXT_MESSAGE_START":
                if self._message(wire["messageId"]) is None:
                    self._new(wire, id=wire["messageId"], role=wire["role"], content="", name=wire["name"])
            case "TEXT_MESSAGE_CONTENT":
                message = self._message(wire["messageId"])
                assert message is not None
                message["content"] = message.get("content", "") + wire["delta"]
            case "TOOL_CALL_START":
                message = self._message(wire["parentMessageId"])
                if message is None:
                    message = self._new(wire, id=wire["parentMessageId"], role="assistant")
                function = {"name": wire["toolCallName"], "arguments": ""}
                message.setdefault("toolCalls", []).append({"id": wire["toolCallId"], "type": "function", "function": function})
            case "TOOL_CALL_ARGS":
                calls = [
                    call for each in self.messages for call in each.get("toolCalls", ()) if call["id"] == wire["toolCallId"]
                ]
                calls[0]["function"]["arguments"] += wire["delta"]
            case "TOOL_CALL_RESULT":
                self._new(wire, id=wire["messageId"], role="tool", toolCallId=wire["toolCallId"], content=wire["content"])
            case "MESSAGES_SNAPSHOT":
                new = {message["id"]: copy.deepcopy(message) for message in wire["messages"]}
                kept = [new[message["id"]] for message in self.messages if message["id"] in new]
                ids = {message["id"] for message in kept}
                self.messages = [*kept, *(message for id_, message in new.items() if id_ not in ids)]
            case "STATE_SNAPSHOT":
                self.state = copy.deepcopy(wire["snapshot"])
            case "STATE_DELTA":
                for operation in wire["delta"]:
                    self._patch(operation)
            case "RUN_FINISHED":
                self.interrupts = wire["outcome"].get("interrupts", [])

    def _message(self, id_: str) -> Wire | None:
        return next((message for message in self.messages if message["id"] == id_), None)

    def _new(self, wire: Wire, **fields: Any) -> Wire:
        tag = {"subagentRunId": wire["subagentRunId"]} if "subagentRunId" in wire else {}
        self.messages.append({**fields, **tag})
        return self.messages[-1]

    def _patch(self, operation: Wire) -> None:
        key = operation["path"].removeprefix("/").replace("~1", "/").replace("~0", "~")
        if operation["op"] == "remove":
            del self.state[key]
        else:
            self.state[key] = operation["value"]
