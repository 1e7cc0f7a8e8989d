"""A task that may be the root of a runner: then it is run as a flow of one task."""

from turnwise.flows.flow import Flow
from turnwise.flows.tasks import task
from turnwise.ports.agent import Agent


class Task(task.Task):
    __doc__ = task.Task.__doc__

    def as_agent(self) -> Agent:
        """The flow of this task alone, under the task's name. FlowDefinitionError when the task cannot be done alone."""
        return Flow(self.name, [self], description=self.objective)
