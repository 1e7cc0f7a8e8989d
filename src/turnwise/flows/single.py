"""A task that may be a runner's root: it runs as a flow of one task."""

from turnwise.flows.flow import Flow
from turnwise.flows.tasks import task
from turnwise.ports.agent import Agent


class Task(task.Task):
    __doc__ = task.Task.__doc__

    def as_agent(self) -> Agent:
        """Returns a flow of this task alone, with the task's name. Raises FlowDefinitionError if it cannot be done alone."""
        return Flow(self.name, [self], description=self.objective)
