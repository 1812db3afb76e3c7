"""The programs, and the environment that each of them needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Framework:
    name: str
    """The folder of its environment below `.frameworks`, and its first package."""
    programs: tuple[str, ...]
    packages: tuple[str, ...]
    """What pip installs. The table shows the version of the first."""


FRAMEWORKS = (
    Framework("openai", ("openai_sync", "openai_async", "openai_responses"), ("openai",)),
    Framework("anthropic", ("anthropic_messages",), ("anthropic",)),
    Framework("google-genai", ("google_genai",), ("google-genai",)),
    Framework("bedrock", ("bedrock_converse",), ("boto3",)),
    Framework("litellm", ("litellm_calls",), ("litellm",)),
    Framework("langchain", ("langchain_batch",), ("langchain", "langchain-openai")),
    Framework("langgraph", ("langgraph_agent", "langgraph_fanout"), ("langgraph", "langchain-openai")),
    Framework("pydantic-ai", ("pydantic_ai_agent",), ("pydantic-ai-slim[openai]",)),
    Framework("openai-agents", ("openai_agents",), ("openai-agents",)),
    Framework("crewai", ("crewai_crew",), ("crewai",)),
    Framework("smolagents", ("smolagents_tools",), ("smolagents[openai]",)),
    Framework("llama-index", ("llama_index_agent",), ("llama-index-core", "llama-index-llms-openai-like")),
    Framework("dspy", ("dspy_parallel",), ("dspy",)),
    Framework("autogen", ("autogen_team",), ("autogen-agentchat", "autogen-ext[openai]")),
    Framework("ag2", ("ag2_agents",), ("ag2[openai]",)),
    Framework("google-adk", ("google_adk_agents",), ("google-adk",)),
    Framework("instructor", ("instructor_models",), ("instructor", "openai")),
    Framework("haystack", ("haystack_agent",), ("haystack-ai",)),
    Framework("inspect-ai", ("inspect_ai_eval",), ("inspect-ai", "openai")),
    Framework("mcp", ("mcp_stdio", "mcp_http"), ("mcp", "openai")),
)
