"""What may stop or change a message, a tool call or an answer: guardrails to choose from."""
