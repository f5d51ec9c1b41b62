"""The tools, one module for each purpose. :func:`memoranda_mcp.server.tools_for` says who gets which."""
