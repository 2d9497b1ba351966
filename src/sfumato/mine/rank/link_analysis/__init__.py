"""Similar nodes, hubs and authorities, trust and spam by the links of a graph."""
