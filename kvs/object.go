package kvs

import "cvmstore/keyspace"

// sharedNumbers is below which Redis keeps one object for all keys that hold a number.
const (
	sharedNumbers = 10_000
	sharedRefs    = 1<<31 - 1
)

// Encoding returns Redis' name for how a value is held, "" if the key is absent. It reads no value.
func Encoding(t *keyspace.Tx, key []byte) (string, error) {
	it, err := t.Peek(key)
	switch {
	case err != nil || !it.Exists():
		return "", err
	case it.Type != keyspace.TypeString:
		names := collectionEncodings[it.Type]
		if i := int(it.Encoding &^ keyspace.EncodingLarge); i < len(names) {
			return names[i], nil
		}
		return "", keyspace.ErrWrongType
	}
	return encodingNames[it.Encoding], nil
}

var encodingNames = [16]string{encodingRaw: "raw", encodingInt: "int", encodingEmbstr: "embstr"}

// RefCount returns how many references Redis would have to a value; 0 if the key is absent.
func RefCount(t *keyspace.Tx, key []byte) (int64, error) {
	it, err := t.Peek(key)
	if err != nil || !it.Exists() {
		return 0, err
	}
	if it.Type != keyspace.TypeString || it.Encoding != encodingInt || it.ValueSize > len("9999") {
		return 1, nil
	}
	t.NoTouch()
	val, _, err := t.Load(key, keyspace.TypeString)
	if err != nil {
		return 0, err
	}
	if n, ok := parseInt(val); ok && n >= 0 && n < sharedNumbers {
		return sharedRefs, nil
	}
	return 1, nil
}
