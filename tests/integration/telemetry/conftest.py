"""What the tests of telemetry share: runners over real stores."""

from runner_fixtures import make_runner, process

__all__ = ["make_runner", "process"]
