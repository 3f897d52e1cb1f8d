package hostile_test

import (
	"fmt"
	"testing"

	"cvmstore/internal/hostile"
	"cvmstore/ioengine/device"
	"cvmstore/ioengine/device/devicetest"
	"cvmstore/ioengine/memdev"
	"cvmstore/nvme"
)

// open opens a device on a controller, and checks at the end that the driver did nothing wrong and kept nothing.
func open(t testing.TB, c *hostile.Controller, o nvme.Options) *nvme.Device {
	t.Helper()
	if o.Clock == nil {
		o.Clock = c.Clock()
	}
	d, err := nvme.Open(c, c, o)
	if err != nil {
		t.Fatalf("%v (%s)", err, c.Replay())
	}
	t.Cleanup(func() { blameless(t, c) })
	return d
}

func blameless(t testing.TB, c *hostile.Controller) {
	t.Helper()
	for _, p := range c.Problems() {
		t.Errorf("the driver broke the rules: %s (%s)", p, c.Replay())
	}
}

func TestContract(t *testing.T) {
	for _, o := range []hostile.Options{
		{},
		{Shuffle: true, Scatter: true, Seed: 1},
		{LogicalBytes: 512, MDTS: 5, Shuffle: true, Seed: 2},
		{LogicalBytes: 4096, MDTS: 7, Entries: 48, Seed: 3},
		{Pairs: 1, Shuffle: true, Seed: 4},
		{Pairs: 2, Entries: 64, Scatter: true, NoTrim: true, Shuffle: true, Seed: 5},
		{Namespaces: 2, MDTS: 3, Seed: 6},
	} {
		o.Blocks = uint64(devicetest.BlocksMax)
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			devicetest.RunFixed(t, func(t *testing.T) device.Device {
				c := hostile.New(o)
				d := open(t, c, nvme.Options{Namespace: 1, Depth: 64})
				t.Cleanup(func() {
					if n := c.Held(); n != 0 {
						t.Errorf("%d pieces of shared memory are still allocated after Close", n)
					}
				})
				return d
			})
		})
	}
}

// The same with another device below the controller, as the benchmarks have it.
func TestContractWithADeviceBelow(t *testing.T) {
	devicetest.RunFixed(t, func(t *testing.T) device.Device {
		below := memdev.New(memdev.Options{Blocks: devicetest.BlocksMax})
		c := hostile.New(hostile.Options{NoTrim: true})
		if err := c.Attach(below); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Detach(); err != nil {
				t.Error(err)
			}
		})
		return open(t, c, nvme.Options{})
	})
}
