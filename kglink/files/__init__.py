"""Files and folders that are whole or not there, locks, digests, manifests and mapped tables."""
