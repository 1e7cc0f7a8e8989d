"""Plans: tasks that a planner creates for each request."""
