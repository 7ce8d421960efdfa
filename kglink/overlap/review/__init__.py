"""Judging overlaps: what is drawn, what was answered, and the table at the end; no terminal."""
