"""Files, frames and streams, read in batches."""
