"""Services of models, played by real HTTP servers on this machine: they say what a test tells them to, and take nothing that
the real ones would refuse."""

from llm_servers.answers import Answer, Fault, Garbage
from llm_servers.anthropic_format import FakeAnthropic
from llm_servers.openai_format import FakeOpenAI
from llm_servers.responses_format import FakeResponses

__all__ = ["Answer", "FakeAnthropic", "FakeOpenAI", "FakeResponses", "Fault", "Garbage"]
