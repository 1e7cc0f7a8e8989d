"""The union of all flow classes. `graph` is None if the tasks are known only during a run."""

from turnwise.flows.flow import Flow
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.several import Several
from turnwise.flows.tasks import task
from turnwise.ports.agent import Agent

AnyFlow = Flow | PlannedFlow | Several


class Task(task.Task):
    __doc__ = task.Task.__doc__

    def as_agent(self) -> Agent:
        """Returns a flow of this task alone, with the task's name. Raises FlowDefinitionError if it cannot be done alone."""
        return Flow(self.name, [self], description=self.objective)
