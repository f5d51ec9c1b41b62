"""The tools, one module for each purpose. :func:`memoranda_mcp.tools.catalogue.tools_for` says who gets which."""
