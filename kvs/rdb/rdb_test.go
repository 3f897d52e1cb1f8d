package rdb

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// sealed puts a footer behind what a payload carries.
func sealed(body string, version uint16) []byte {
	b := binary.LittleEndian.AppendUint16([]byte(body), version)
	return binary.LittleEndian.AppendUint64(b, crc64(b))
}

func TestCRC(t *testing.T) {
	if got := crc64([]byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Errorf("check value %x", got)
	}
}

// Payloads that redis-server 7.0.15 wrote.
func TestPayloadsOfRedisAreRead(t *testing.T) {
	for _, c := range captured {
		p, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseDump(p, 1<<20)
		if err != nil || string(got) != c.val {
			t.Errorf("%.40q: %.40q, %v", c.val, got, err)
		}
		for i := range p {
			p[i] ^= 0x40
			if _, err := ParseDump(p, 1<<20); !errors.Is(err, ErrPayload) {
				t.Errorf("%.40q with byte %d changed: %v", c.val, i, err)
			}
			p[i] ^= 0x40
		}
	}
}

func TestWhatIsDumpedIsRead(t *testing.T) {
	for _, val := range []string{
		"", "0", "-0", "00", "-1", "127", "128", "-128", "-129", "32767", "32768", "-32768", "2147483647", "2147483648", "-2147483648",
		"+1", " 1", "1 ", "abc", strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 16383), strings.Repeat("x", 16384),
	} {
		p := AppendDump([]byte("before"), []byte(val))[6:]
		got, err := ParseDump(p, len(val)+11)
		if err != nil || string(got) != val {
			t.Errorf("%.40q: %.40q, %v", val, got, err)
		}
	}
}

func TestBadPayloadsAreRefused(t *testing.T) {
	long := func(n int) string { return "\x80" + string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	for name, c := range map[string]struct {
		p    []byte
		want error
	}{
		"nothing":                  {nil, ErrPayload},
		"a footer too short":       {sealed("", Version)[1:], ErrPayload},
		"a later version":          {sealed("\x00\x01a", Version+1), ErrPayload},
		"no type":                  {sealed("", Version), ErrFormat},
		"another type":             {sealed("\x01\x01\x01a", Version), ErrFormat},
		"no length":                {sealed("\x00", Version), ErrFormat},
		"half a length":            {sealed("\x00\x41", Version), ErrFormat},
		"an unknown length":        {sealed("\x00\x82\x00\x00\x00\x00", Version), ErrFormat},
		"a negative length":        {sealed("\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", Version), ErrFormat},
		"less than its length":     {sealed("\x00\x02a", Version), ErrFormat},
		"more than the limit":      {sealed("\x00"+long(101)+strings.Repeat("a", 101), Version), ErrFormat},
		"half a number":            {sealed("\x00\xc2\x01\x01", Version), ErrFormat},
		"an unknown special form":  {sealed("\x00\xc4\x01", Version), ErrFormat},
		"LZF without its lengths":  {sealed("\x00\xc3\x05", Version), ErrFormat},
		"LZF that is too short":    {sealed("\x00\xc3\x02\x02\x00a", Version), ErrFormat},
		"LZF that is too long":     {sealed("\x00\xc3\x03\x01\x01aa", Version), ErrFormat},
		"LZF from before it":       {sealed("\x00\xc3\x04\x04\x00a\x20\x01", Version), ErrFormat},
		"LZF that cannot be":       {sealed("\x00\xc3\x02"+long(100)+"\x00a", Version), ErrFormat},
		"LZF cut in a reference":   {sealed("\x00\xc3\x03\x0a\x00a\x20", Version), ErrFormat},
		"LZF cut in a long one":    {sealed("\x00\xc3\x03\x0a\x00a\xe0", Version), ErrFormat},
		"LZF beyond the limit":     {sealed("\x00\xc3\x05"+long(101)+"\x00a\xe0\x5b\x00", Version), ErrFormat},
		"a special form as length": {sealed("\x00\xc3\xc0\x01a", Version), ErrFormat},
	} {
		if _, err := ParseDump(c.p, 100); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseDump(f *testing.F) {
	for _, c := range captured {
		p, _ := hex.DecodeString(c.hex)
		f.Add(p[:len(p)-footerSize])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		const limit = 1 << 16
		val, err := ParseDump(sealed(string(body), Version), limit)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if len(val) > limit {
			t.Fatalf("%d bytes", len(val))
		}
		again, err := ParseDump(AppendDump(nil, val), limit)
		if err != nil || !bytes.Equal(again, val) {
			t.Fatalf("%q became %q: %v", val, again, err)
		}
		if _, err := ParseDump(body, limit); err == nil {
			t.Skip("the fuzzer found a CRC")
		}
	})
}
