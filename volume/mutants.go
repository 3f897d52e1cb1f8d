package volume

import "cvmstore/internal/mutant"

func mutantIgnoreChain() bool { return mutant.On(mutant.IgnoreChain) }
