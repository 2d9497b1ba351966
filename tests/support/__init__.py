"""What several tests share: contracts, references, simulated data and faults."""
