"""The record of an invocation: its journal, and the recorder that writes it."""
