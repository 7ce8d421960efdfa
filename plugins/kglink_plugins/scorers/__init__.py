"""Scorers: how a mention and an entity are compared."""
