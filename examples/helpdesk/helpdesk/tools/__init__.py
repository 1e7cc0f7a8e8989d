"""What the models of the desks may call. A docstring tells the model what a tool does; what it returns is what it reads."""
