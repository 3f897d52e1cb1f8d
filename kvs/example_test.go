package kvs_test

import (
	"context"
	"fmt"
	"log"

	"cvmstore/epoch"
	"cvmstore/epoch/epochtest"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/memdev"
	"cvmstore/keyspace"
	"cvmstore/kvs"
	"cvmstore/seal"
	"cvmstore/volume"
)

// A program that embeds the store: a volume on a device, under a trusted counter and a key. Here all three are in memory; a
// program that keeps its data takes ioengine/filedev, epoch.OpenEmbedded or a counter service, and a key from seal.
func ExampleStore() {
	ctx := context.Background()
	keys, err := seal.GenerateKeys(seal.SuiteAEGIS)
	if err != nil {
		log.Fatal(err)
	}
	counter := epochtest.NewMemory(epochtest.Options{})
	if err := counter.Create(ctx, epoch.StoreID(keys.StoreID())); err != nil {
		log.Fatal(err)
	}
	space := keyspace.New(keyspace.Options{})
	v, err := volume.Open(ctx, volume.Options{
		Device:  memdev.New(memdev.Options{Blocks: device.BlocksFor(64 << 20)}),
		Counter: counter,
		Keys:    keys,
		Stores:  map[volume.Store]volume.Replayer{volume.StoreKeys: space},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close(ctx)
	space.Attach(v)

	store := kvs.NewStore(v, space, 0)
	if err := store.Set(ctx, []byte("greeting"), []byte("hello"), volume.LevelFresh); err != nil {
		log.Fatal(err)
	}
	val, ok, err := store.Get(ctx, []byte("greeting"), volume.LevelFresh)
	fmt.Printf("%s %v %v\n", val, ok, err)

	// Several commands as one transaction: applied whole or not at all.
	visits := []byte("visits")
	err = store.Do(ctx, [][]byte{visits}, volume.LevelDurable, func(t *keyspace.Tx) error {
		n, err := kvs.IncrBy(t, visits, 1)
		if err == nil {
			fmt.Println("visits:", n)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	existed, err := store.Delete(ctx, []byte("greeting"), volume.LevelFresh)
	fmt.Println("deleted:", existed, err)
	// Output:
	// hello true <nil>
	// visits: 1
	// deleted: true <nil>
}
