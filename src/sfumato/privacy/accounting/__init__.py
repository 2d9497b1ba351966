"""What releases cost together: losses, their distributions and their composition."""
