package aegis

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// hexBytes is a byte string written in hexadecimal.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// vector is a message, or a MAC, with the section of the draft that it is from.
type vector struct {
	Source, Variant         string
	Key, Nonce, AD, Msg, CT hexBytes
	Data                    hexBytes
	Tag128, Tag256          hexBytes
	In, RK, Out             hexBytes
	Before, After           []hexBytes
	M0, M1                  hexBytes
	Rows                    [][]hexBytes
}

func (v vector) variant() Variant {
	if v.Variant == AEGIS128X4.String() {
		return AEGIS128X4
	}
	return AEGIS128L
}

type vectorFile struct {
	AESRound, Update, Init vector
	Seal, Reject, MAC      []vector
}

// draftVectors reads the vectors of the draft.
func draftVectors(t *testing.T) (f vectorFile) {
	t.Helper()
	text, err := os.ReadFile("testdata/draft-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	// Of AEGIS-128L five messages and four rejected ones, of AEGIS-128X4 two messages; a MAC of each.
	if len(f.Seal) != 7 || len(f.Reject) != 4 || len(f.MAC) != 2 {
		t.Fatalf("vectors are missing: %d messages, %d rejected, %d MACs", len(f.Seal), len(f.Reject), len(f.MAC))
	}
	return f
}

// eachImplementation runs the test once for every implementation that this CPU has.
func eachImplementation(t *testing.T, test func(t *testing.T)) {
	for _, name := range Implementations() {
		t.Run(name, func(t *testing.T) {
			restore, err := Force(name)
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			test(t)
		})
	}
}

func TestDraftMessages(t *testing.T) {
	vectors := draftVectors(t)
	eachImplementation(t, func(t *testing.T) {
		for _, v := range vectors.Seal {
			c := New(v.variant(), v.Key)
			for _, want := range []hexBytes{v.Tag128, v.Tag256} {
				dst, tag := make([]byte, len(v.Msg)), make([]byte, len(want))
				c.Seal(dst, tag, v.Nonce, v.Msg, v.AD)
				if !bytes.Equal(dst, v.CT) || !bytes.Equal(tag, want) {
					t.Errorf("%s: sealed to %x tag %x, want %x tag %x", v.Source, dst, tag, v.CT, want)
				}
				clear(dst)
				if err := c.Open(dst, v.Nonce, v.CT, want, v.AD); err != nil || !bytes.Equal(dst, v.Msg) {
					t.Errorf("%s: opened to %x, %v", v.Source, dst, err)
				}
				a, err := NewAEAD(v.variant(), v.Key, len(want))
				if err != nil {
					t.Fatal(err)
				}
				joined := append(bytes.Clone(v.CT), want...)
				if got := a.Seal(nil, v.Nonce, v.Msg, v.AD); !bytes.Equal(got, joined) {
					t.Errorf("%s: AEAD sealed to %x, want %x", v.Source, got, joined)
				}
				if got, err := a.Open(nil, v.Nonce, joined, v.AD); err != nil || !bytes.Equal(got, v.Msg) {
					t.Errorf("%s: AEAD opened to %x, %v", v.Source, got, err)
				}
			}
		}
	})
}

func TestDraftRejectedMessages(t *testing.T) {
	vectors := draftVectors(t)
	eachImplementation(t, func(t *testing.T) {
		for _, v := range vectors.Reject {
			c := New(v.variant(), v.Key)
			for _, tag := range []hexBytes{v.Tag128, v.Tag256} {
				dst := bytes.Repeat([]byte{0xa5}, len(v.CT))
				if err := c.Open(dst, v.Nonce, v.CT, tag, v.AD); err != ErrOpen {
					t.Errorf("%s: error %v, want ErrOpen", v.Source, err)
				}
				if !bytes.Equal(dst, make([]byte, len(dst))) {
					t.Errorf("%s: dst holds %x after a wrong tag", v.Source, dst)
				}
				a, err := NewAEAD(v.variant(), v.Key, len(tag))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := a.Open(nil, v.Nonce, append(bytes.Clone(v.CT), tag...), v.AD); err != ErrOpen || got != nil {
					t.Errorf("%s: AEAD opened to %x, %v", v.Source, got, err)
				}
			}
		}
	})
}

func TestDraftMACs(t *testing.T) {
	vectors := draftVectors(t)
	eachImplementation(t, func(t *testing.T) {
		for _, v := range vectors.MAC {
			c := New(v.variant(), v.Key)
			for _, want := range []hexBytes{v.Tag128, v.Tag256} {
				tag := make([]byte, len(want))
				c.MAC(tag, v.Nonce, v.Data)
				if !bytes.Equal(tag, want) {
					t.Errorf("%s: tag %x, want %x", v.Source, tag, want)
				}
				if err := c.VerifyMAC(v.Nonce, v.Data, want); err != nil {
					t.Errorf("%s: %v", v.Source, err)
				}
				tag[0] ^= 1
				if err := c.VerifyMAC(v.Nonce, v.Data, tag); err != ErrOpen {
					t.Errorf("%s: a wrong tag gives %v, want ErrOpen", v.Source, err)
				}
			}
		}
	})
}

// The draft's vectors below the level of messages are for the portable implementation, which has these steps as
// functions.
func TestDraftSteps(t *testing.T) {
	f := draftVectors(t)
	if got, want := aesRound(loadBlock(f.AESRound.In), loadBlock(f.AESRound.RK)), loadBlock(f.AESRound.Out); got != want {
		t.Errorf("AESRound gives %x, want %x", got, want)
	}
	l := portableState{lanes: 1}
	for r := range l.v {
		l.v[r][0] = loadBlock(f.Update.Before[r])
	}
	l.updateLane(0, loadBlock(f.Update.M0), loadBlock(f.Update.M1))
	for r := range l.v {
		if want := loadBlock(f.Update.After[r]); l.v[r][0] != want {
			t.Errorf("Update leaves S%d = %x, want %x", r, l.v[r][0], want)
		}
	}
	x4 := portableState{lanes: 4}
	x4.init(f.Init.Key, f.Init.Nonce)
	for r := range x4.v {
		for i := range x4.v[r] {
			if want := loadBlock(f.Init.Rows[r][i]); x4.v[r][i] != want {
				t.Errorf("Init leaves V[%d,%d] = %x, want %x", r, i, x4.v[r][i], want)
			}
		}
	}
}
