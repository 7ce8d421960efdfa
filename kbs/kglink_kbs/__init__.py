"""KB adapters that come with kglink: one file for each source format."""
