"""Detectors: they find the mentions of a text."""
