"""`kglink serve`: a workspace over HTTP, with a page, for one machine or a team."""
