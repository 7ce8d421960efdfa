"""The command line of kglink."""
