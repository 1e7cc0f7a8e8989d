"""What the gateway and its clients say to each other in our own API: bodies, and nothing else."""
