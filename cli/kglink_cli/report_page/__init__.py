"""The page, the plots and the tables of `kglink report`, made from its JSON alone."""
