"""How one value becomes one private report: RAPPOR and the other local randomizers."""
