"""The union of all flow classes. Their `graph` is None for flows whose tasks are known only during a run."""

from turnwise.flows.flow import Flow
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.several import Several

AnyFlow = Flow | PlannedFlow | Several
