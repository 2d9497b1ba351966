"""What grows with the log: the trainer's model and how it is served, live sketches, last items."""
