"""Agents made with other libraries, as agents of ours: one file for each library, which alone knows it."""
