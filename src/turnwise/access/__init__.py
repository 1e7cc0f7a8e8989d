"""Who may enter and what they may do: credentials into callers, callers' rights, and how much each may have."""
