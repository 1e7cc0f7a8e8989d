"""The flows there are. `graph`: the tasks; None for those that know them only once they run."""

from turnwise.flows.flow import Flow
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.several import Several

AnyFlow = Flow | PlannedFlow | Several
