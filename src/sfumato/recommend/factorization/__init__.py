"""Factor models trained by stochastic gradient descent, dense and sketched."""
