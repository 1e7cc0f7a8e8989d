"""What guardrails do to what is said."""
