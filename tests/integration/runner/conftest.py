"""What the runner's tests share: runners over real stores."""

from runner_fixtures import make_runner, process

__all__ = ["make_runner", "process"]
