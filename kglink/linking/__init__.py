"""Linking: detect mentions, retrieve candidates, decide, explain."""
