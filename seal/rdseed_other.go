//go:build !amd64 || purego

package seal

const hasRDSEED = false

func rdseed64() (uint64, bool) { return 0, false }
