"""Evidence of overlaps: reasons to take two entities for the same thing, or not to."""
