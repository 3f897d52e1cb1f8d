package files_test

import (
	"context"
	"fmt"
	"io"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/files"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/seal"
	"cvmstore/volume"
)

// A program keeps a file on a volume of its own: here in memory, with a counter in memory.
func Example() {
	ctx := context.Background()
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		panic(err)
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		panic(err)
	}
	space := keyspace.New(keyspace.Options{})
	files.New(space)
	v, err := volume.Open(ctx, volume.Options{
		Device: memdev.New(memdev.Options{Blocks: 1 << 15}), Counter: counter, Keys: keys,
		Stores: map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		panic(err)
	}
	space.Attach(v)
	store := files.NewStore(v, space)

	if _, err := store.Put(ctx, []byte("hello"), []byte("hello, world"), files.PutOptions{}, volume.LevelFresh); err != nil {
		panic(err)
	}
	f, err := store.Open(ctx, []byte("hello"))
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(f)
	fmt.Printf("%s, %v\n", text, err)
	_ = f.Close()
	_ = v.Close(ctx)
	// Output: hello, world, <nil>
}
