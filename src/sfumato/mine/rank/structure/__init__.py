"""Structure of a graph as a whole: triangles, and how many nodes lie within each distance."""
