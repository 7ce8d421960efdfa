"""The parts of the dictionary detector: borders of words, compiled aliases, guard, finder."""
