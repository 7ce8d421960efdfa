"""Clusterers: what other mentions of a run say of a mention."""
