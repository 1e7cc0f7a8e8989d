"""The Restate dispatcher: a Restate server decides which worker works on which session."""
