"""What released profiles tell an attacker, measured user by user."""
