"""A flow at work, on standard error: a line for whatever happens, and below them at a terminal the tasks as they stand."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.text import Text

from turnwise.cli import rendering, terminal
from turnwise.cli.clean import one_line
from turnwise.cli.flow_lines import at_a_glance, news, plan
from turnwise.facts.events import Event
from turnwise.facts.sessions import visible
from turnwise.flows.control.logged import TURN_END, Ended, data_of, turn_end_of
from turnwise.flows.plans.plan import graph_of
from turnwise.flows.record import FlowRecord, Reading
from turnwise.flows.tasks.graph import Graph

REFRESHES = 6
OTHER_LINES = 8
"""How much of the terminal's height is left to what is printed above."""


class FlowView:
    """Shows the events of a flow's run as they come. graph: its tasks; None when the run says them. `record` is how it stands,
    None before it began.
    """

    def __init__(self, flow: str, graph: Graph | None = None) -> None:
        self._flow, self._known = flow, graph
        self._console = terminal.err()
        self._events: list[Event] = []
        self._reading = Reading(flow, graph)
        self._record: FlowRecord | None = None

    @property
    def record(self) -> FlowRecord | None:
        return self._record

    @property
    def last(self) -> int:
        """The number of the last event; 0 before the first."""
        return self._events[-1].sequence or 0 if self._events else 0

    def asked(self, wait: str) -> Event | None:
        """The event by which somebody began to wait."""
        return next((event for event in self._events if event.actions.awaits and event.actions.awaits.id == wait), None)

    def look_back(self, events: list[Event]) -> None:
        """Takes in what happened before, without a word."""
        for event in events:
            self._take(event)

    def show(self, event: Event) -> None:
        """Shows what the event brings, which is not partial."""
        before = self._record
        self._take(event)
        if rendering.begins_attempt(event):
            self.say(rendering.attempt_line(event))
        if self._reading.is_told(event) and (told := data_of(event, TURN_END)) and (ended := turn_end_of(event)):
            self.say(_handed_on(str(told.get("by", "")), ended))
        if self._known is None and (planned := graph_of(self._flow, event)):
            for line in plan(planned, terminal.width(self._console)):
                self.say(line)
        for line in news(before, self._record) if self._record else ():
            self.say(line)

    def say(self, line: Text) -> None:
        """A line of its own."""
        self._console.print(line, soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """While it is entered, the tasks stand at the bottom of the terminal, if it is one."""
        if not self._console.is_terminal:
            yield
            return
        from rich.live import Live

        with Live(
            get_renderable=self._glance,
            console=self._console,
            refresh_per_second=REFRESHES,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ):
            yield

    def _take(self, event: Event) -> None:
        self._events.append(event)
        if event.actions.rewind is None:
            self._reading.add(event)
        else:
            self._events = visible(self._events)
            self._reading = Reading(self._flow, self._known)
            for left in self._events:
                self._reading.add(left)
        self._record = self._reading.record

    def _glance(self) -> Group:
        rows, graph = max(self._console.height - OTHER_LINES, 3), self._reading.graph
        lines = list(at_a_glance(graph, self._record, rows)) if graph else [rendering.styled("   no plan yet", "dim")]
        for line in lines:
            line.truncate(self._console.width, overflow="ellipsis")
        return Group(Text(), *lines)


def _handed_on(by: str, ended: Ended) -> Text:
    line = rendering.styled("↷ ", "dim").append(one_line(by), style="bold").append(" ends its turn", style="dim")
    line.append(f" · for {one_line(ended.next)}" if ended.next else "", style="dim")
    return line.append(f" · {one_line(ended.word.content.text)}" if ended.word else "")
