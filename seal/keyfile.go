package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// The key file is text, so that a person can see what it is, in exactly this form, each line ended by one newline:
//
//	cvmstore-key-v1                   the format, and the name of the key derivation
//	store 32 hex digits               which store it is for: the counter's record, the volume's superblock
//	suite aegis                       the cipher suite, or aes-256-gcm
//	secret 64 hex digits              the master secret
//	check 16 hex digits               the first 8 bytes of SHA-256 of all before this line
//
// The check is against a slip of an editor. It says nothing about who wrote the file.
const (
	keyFileHeader = derivation + "\n"
	keyFileMax    = 4096 // bytes read of what claims to be a key file
	checkBytes    = 8
)

// Errors of the key file, wrapped with its path and what to do.
var (
	ErrKeyDamaged = errors.New("not a valid key file")
	ErrKeyExposed = errors.New("key file is open to others")
)

// CreateKeyFile makes a new store's keys and writes them to path with mode 0600. The file and its name are durable before it
// returns; a crash before that leaves no file at path. os.ErrExist: there is one already, which is left alone.
func CreateKeyFile(path, suite string) (*Keys, error) {
	k, err := GenerateKeys(suite)
	if err != nil {
		return nil, err
	}
	if err := k.writeKeyFile(path); err != nil {
		k.Wipe()
		return nil, err
	}
	return k, nil
}

// writeKeyFile fills a draft first and links it to path, because a key file that is half written would lock its owner out.
func (k *Keys) writeKeyFile(path string) error {
	text := k.encode()
	defer clear(text)
	draft := path + "." + rand.Text()[:8] + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create key file: %w", err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(draft, path)
	}
	if err = errors.Join(err, os.Remove(draft)); err != nil {
		return fmt.Errorf("create key file: %w", err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("create key file: %w", err)
	}
	return nil
}

// ReadKeyFile reads the keys at path. It refuses a file that others can read or write, or that belongs to another user
// (ErrKeyExposed), and one that is damaged (ErrKeyDamaged). Its checks look at the file that was opened, so a symbolic link
// is as good as what it points to.
func ReadKeyFile(path string) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key file %s: not a regular file: %w", path, ErrKeyDamaged)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("key file %s has mode %#o, so that others on this machine can read or change it. If nobody "+
			"did, run: chmod 600 %s: %w", path, perm, path, ErrKeyExposed)
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	text := make([]byte, keyFileMax+1)
	defer clear(text)
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("key file: %w", err)
	}
	k, err := decodeKeys(text[:n])
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

// Text returns the keys in the form of the key file, for whoever brings them to another machine. It is secret; the caller clears
// it.
func (k *Keys) Text() []byte { return k.encode() }

// ParseKeys reads what Text returned. ErrKeyDamaged.
func ParseKeys(text []byte) (*Keys, error) { return decodeKeys(text) }

// encode returns the text of the key file. The caller clears it.
func (k *Keys) encode() []byte {
	b := make([]byte, 0, 512)
	b = append(b, keyFileHeader...)
	b = appendHexLine(b, "store", k.store[:])
	b = append(b, "suite "+k.suite+"\n"...)
	b = appendHexLine(b, "secret", k.secret[:])
	sum := sha256.Sum256(b)
	return appendHexLine(b, "check", sum[:checkBytes])
}

func appendHexLine(b []byte, name string, value []byte) []byte {
	b = append(b, name...)
	b = append(b, ' ')
	b = hex.AppendEncode(b, value)
	return append(b, '\n')
}

// decodeKeys accepts exactly what encode writes. Its errors never quote what they refuse, which may be the secret.
func decodeKeys(text []byte) (*Keys, error) {
	damaged := func(what string) error { return fmt.Errorf("%s: %w", what, ErrKeyDamaged) }
	if !bytes.HasPrefix(text, []byte(keyFileHeader)) {
		if bytes.HasPrefix(text, []byte("cvmstore-key-v")) {
			return nil, damaged("written by another version of cvmstore, this one reads version 1")
		}
		return nil, damaged("it does not begin with " + strings.TrimSpace(keyFileHeader))
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) != 6 || len(lines[5]) != 0 {
		return nil, damaged("it does not have five whole lines")
	}
	var store [16]byte
	var secret [32]byte
	defer clear(secret[:])
	var check [checkBytes]byte
	suite, isSuite := bytes.CutPrefix(lines[2], []byte("suite "))
	switch {
	case !hexLine(lines[1], "store", store[:]):
		return nil, damaged("line 2 is not the store id")
	case !isSuite:
		return nil, damaged("line 3 is not the cipher suite")
	case !hexLine(lines[3], "secret", secret[:]):
		return nil, damaged("line 4 is not the secret")
	case !hexLine(lines[4], "check", check[:]):
		return nil, damaged("line 5 is not the check")
	}
	if sum := sha256.Sum256(text[:len(text)-len(lines[4])]); !bytes.Equal(sum[:checkBytes], check[:]) {
		return nil, damaged("its check does not match, so something in it was changed; use a copy")
	}
	k, err := NewKeys(store, string(bytes.TrimSuffix(suite, []byte("\n"))), secret)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrKeyDamaged)
	}
	return k, nil
}

// hexLine reads "name <lower-case hex>\n" into out and reports whether the line is exactly that.
func hexLine(line []byte, name string, out []byte) bool {
	digits, ok := bytes.CutPrefix(line, []byte(name+" "))
	digits, ended := bytes.CutSuffix(digits, []byte("\n"))
	if !ok || !ended || len(digits) != hex.EncodedLen(len(out)) || !bytes.Equal(digits, bytes.ToLower(digits)) {
		return false
	}
	_, err := hex.Decode(out, digits)
	return err == nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
