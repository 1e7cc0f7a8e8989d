"""Tools for models: Python functions, other agents, transfers, questions, artifacts and MCP servers."""
