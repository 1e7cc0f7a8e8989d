"""What is learned from cases: how good the decisions are, which thresholds fit, and what is wrong with the agents."""
