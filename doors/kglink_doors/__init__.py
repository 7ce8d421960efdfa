"""Doors to a workspace where people already work: HTTP, a page, MCP, spaCy.

Each door takes what comes, calls a method of `kglink.Workspace`, and answers in the JSON of the
command line. The library knows none of them.
"""
