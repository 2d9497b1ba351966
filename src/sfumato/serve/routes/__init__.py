"""The routes of the service, a file for each kind, and the types of their messages."""
