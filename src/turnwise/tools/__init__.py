"""Tools: what language models may call. Python functions, agents, questions, artifacts, MCP servers."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.facts.messages import OfferedTool as OfferedTool
    from turnwise.ports.tool import (
        Tool as Tool,
        ToolCall as ToolCall,
        ToolRules as ToolRules,
        Toolset as Toolset,
        ToolSpec as ToolSpec,
    )
    from turnwise.tools.built_in import AgentTool as AgentTool, ArtifactTools as ArtifactTools, ask_user as ask_user
    from turnwise.tools.function import FunctionTool as FunctionTool, tool as tool
    from turnwise.tools.mcp_toolset import McpServer as McpServer

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.facts.messages": "OfferedTool",
        "turnwise.ports.tool": "Tool ToolCall ToolRules ToolSpec Toolset",
        "turnwise.tools.built_in": "AgentTool ArtifactTools ask_user",
        "turnwise.tools.function": "FunctionTool tool",
        "turnwise.tools.mcp_toolset": "McpServer",
    },
)
