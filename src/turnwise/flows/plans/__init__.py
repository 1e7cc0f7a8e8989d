"""Plans: the tasks of a flow that are known only once it is asked."""
