"""The running flow: assignments for its agents, its events in the log, and the control loop."""
