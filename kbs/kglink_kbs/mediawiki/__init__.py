"""Reads MediaWiki XML exports: Wikipedia's dumps, Fandom's, and those of any other wiki."""
