"""MCP client sessions: each request to a server is an effect, on any transport."""
