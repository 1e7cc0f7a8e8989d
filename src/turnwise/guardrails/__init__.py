"""Built-in guardrails: checks that block or rewrite messages, tool calls and answers."""
