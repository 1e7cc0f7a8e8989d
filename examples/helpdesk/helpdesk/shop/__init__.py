"""Every question to the shop database, one file for each area. Nothing else in the example holds SQL."""
