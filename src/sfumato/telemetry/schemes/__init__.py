"""Local randomizers that turn a value into a private report: RAPPOR and alternatives."""
