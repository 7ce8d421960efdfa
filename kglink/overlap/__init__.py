"""Overlaps: entities of different KBs that are the same thing."""
