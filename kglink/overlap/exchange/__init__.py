"""Overlaps that come from elsewhere or go there: SSSOM, the paper's table, lists of pairs."""
