"""What models may call: Python functions, other agents, transfers, questions, artifacts, MCP servers."""
