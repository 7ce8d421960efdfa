"""Evaluation through the same search that users call."""
