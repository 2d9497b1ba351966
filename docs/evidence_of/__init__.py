"""What each source measured, and what we measure: rows of docs/evidence.md, from JSON."""
