package ioengine

import (
	"bytes"
	"context"
	"crypto/aes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/xts"

	"cvmstore/ioengine/memdev"
)

func TestAblationsMoveTheBytes(t *testing.T) {
	secret := bytes.Repeat([]byte{1, 2}, 32)
	for kind := range DiskLayer + 1 {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t, memdev.Options{Seed: uint64(kind), Manual: kind != Raw}, 16, Options{Depth: 4, NoOverlap: kind == WithoutOverlap})
			defer r.close()
			const chunk = chunkTest
			b := NewBench(kind, 4, func(key []byte) (SectorCipher, error) { return xts.NewCipher(aes.NewCipher, key) })
			key, err := b.Key(secret, Identity{Blob: [32]byte{7}})
			if err != nil {
				t.Fatal(err)
			}
			// A pool of larger chunks, as WithGCM wants.
			pool, err := NewPool(r.dev, PoolOptions{Buffers: 16, Chunk: chunk + 4096})
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(r.dev, pool, Options{Depth: 4, NoOverlap: kind == WithoutOverlap})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}()
			data := r.bytes(11 * chunk)
			x := Extent{0, 11 * chunk / 4096}
			w, err := e.NewWriter(key, chunk, x)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WriteAll(context.Background(), data); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(data))
			rd, err := e.NewReader(key, chunk, x)
			if err != nil {
				t.Fatal(err)
			}
			if err := rd.ReadAll(context.Background(), 0, w.Tags(), got); err != nil {
				t.Fatal(err)
			}
			if kind != Raw && !bytes.Equal(got, data) {
				t.Error("what was written was not read")
			}
			if plain := bytes.Equal(r.dev.Peek(3), data[3*4096:4*4096]); plain != (kind == WithoutCipher) {
				t.Errorf("plaintext on the device: %v", plain)
			}
		})
	}
}

// TestOnlyTheBenchmarkNamesAblations: nothing that serves can reach an engine with parts taken away.
func TestOnlyTheBenchmarkNamesAblations(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || rel == "bench" || rel == "ioengine" || rel == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, name := range []string{"ioengine.NewBench", "ioengine.Ablation", "ioengine.Raw", "NoOverlap"} {
			if strings.Contains(string(text), name) {
				t.Errorf("%s names %s", rel, name)
			}
		}
		return nil
	})
	if err != nil || files < 50 {
		t.Fatalf("looked at %d files: %v", files, err)
	}
}
