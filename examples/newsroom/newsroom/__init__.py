"""A small newsroom: four agents who write an article from a collection of texts."""
