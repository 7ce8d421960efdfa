"""How plugins are found, named, refused and made."""
