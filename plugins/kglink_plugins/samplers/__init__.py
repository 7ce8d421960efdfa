"""Samplers: which entities a mention learns to tell from the right one."""
