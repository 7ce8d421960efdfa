"""Kinds of evidence that are asked for the best candidates of the mentions of a text."""
