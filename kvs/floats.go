package kvs

import (
	"bytes"
	"errors"
	"math/big"

	"cvmstore/keyspace"
	"cvmstore/volume"
)

// Errors of IncrByFloat.
var (
	ErrNotFloat  = errors.New("ERR value is not a valid float")
	ErrNotFinite = errors.New("ERR increment would produce NaN or Infinity")
)

// Redis computes INCRBYFLOAT in C's long double: on x86, 64 bits of mantissa and 15 of exponent.
const (
	floatMantissa    = 64
	floatExponentMax = 16384
	floatExponentMin = -16445 // below it even denormals are zero
	floatDigits      = 17     // behind the point
	floatTextMax     = 5 << 10
)

// parseFloat reads a number as C's strtold does, whole, without spaces before it.
func parseFloat(b []byte) (*big.Float, bool) {
	if len(b) == 0 || len(b) >= floatTextMax {
		return nil, false
	}
	digits := bytes.TrimLeft(b, "+-")
	if len(b)-len(digits) > 1 {
		return nil, false
	}
	if word := bytes.ToLower(digits); string(word) == "inf" || string(word) == "infinity" {
		return new(big.Float).SetInf(b[0] == '-'), true
	}
	base := 10
	for _, c := range digits { // neither digit separators nor binary exponents of decimals
		switch {
		case c >= '0' && c <= '9', c == '.', c == '+', c == '-', c|0x20 == 'e':
		case c|0x20 == 'x', c|0x20 == 'p', c|0x20 >= 'a' && c|0x20 <= 'f':
			base = 0
		default:
			return nil, false
		}
	}
	if base == 0 && (len(digits) < 3 || digits[0] != '0' || digits[1]|0x20 != 'x') {
		return nil, false
	}
	f, _, err := big.ParseFloat(string(b), base, floatMantissa, big.ToNearestEven)
	if err != nil || f.IsInf() || f.Sign() != 0 && (f.MantExp(nil) > floatExponentMax || f.MantExp(nil) < floatExponentMin) {
		return nil, false
	}
	if f.Sign() == 0 && bytes.ContainsAny(mantissa(digits), "123456789") {
		return nil, false // underflow
	}
	return f, true
}

// mantissa is what stands before the exponent.
func mantissa(digits []byte) []byte {
	if i := bytes.IndexAny(digits, "eEpP"); i >= 0 && !bytes.HasPrefix(bytes.ToLower(digits), []byte("0x")) {
		return digits[:i]
	}
	return digits
}

// formatFloat writes a number as Redis does: at most 17 digits behind the point, no exponent, no zeros at the end.
func formatFloat(f *big.Float) []byte {
	s := f.Append(nil, 'f', floatDigits)
	s = bytes.TrimRight(s, "0")
	s = bytes.TrimSuffix(s, []byte("."))
	if string(s) == "-0" {
		s = s[1:]
	}
	return s
}

// IncrByFloat adds to the number that a key holds, 0 if it is absent, and returns the sum as it is stored. The expiry stays.
func IncrByFloat(t *keyspace.Tx, key, delta []byte) ([]byte, error) {
	if it, err := find(t, key); err != nil {
		return nil, err
	} else if it.ValueSize >= floatTextMax {
		return nil, ErrNotFloat
	}
	old, it, err := t.Load(key, keyspace.TypeString)
	if err != nil {
		return nil, err
	}
	sum := new(big.Float).SetPrec(floatMantissa)
	if it.Exists() {
		var ok bool
		if sum, ok = parseFloat(old); !ok {
			return nil, ErrNotFloat
		}
	}
	by, ok := parseFloat(delta)
	if !ok {
		return nil, ErrNotFloat
	}
	if sum.IsInf() || by.IsInf() {
		return nil, ErrNotFinite
	}
	sum = new(big.Float).SetPrec(floatMantissa).Add(sum, by)
	if sum.MantExp(nil) > floatExponentMax {
		return nil, ErrNotFinite
	}
	val := formatFloat(sum)
	if err := checkSize(t, key, len(val)); err != nil {
		return nil, err
	}
	if err := t.Reserve(keyspace.PutSize(len(key), len(val)), 1, volume.ClassNormal); err != nil {
		return nil, err
	}
	encoding := uint8(encodingEmbstr)
	if len(val) > embstrMax {
		encoding = encodingRaw
	}
	t.Put(key, keyspace.Put{Type: keyspace.TypeString, Encoding: encoding, Expiry: it.Expiry, Event: "incrbyfloat"}, val)
	return val, nil
}
