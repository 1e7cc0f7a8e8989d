"""Adapters for agents of other libraries, with one module for each library."""
