"""What is known about an expression before it is evaluated: its constants, its types, and the inputs that it reads."""
