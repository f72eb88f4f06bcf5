"""Shell completion: the scripts, and the candidates for each argument."""
