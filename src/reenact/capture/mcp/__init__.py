"""Sessions of MCP clients: what they ask of a server is an effect, whatever it travels by."""
