"""Text: folding with exact offset maps, windows, and spans marked in brackets."""
