"""The plugins that come with kglink; they register in the same way as those of others."""
