package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"cvmstore/ioengine/device"
	"cvmstore/nvme"
	"cvmstore/nvme/vfio"
	"cvmstore/resp"
	"cvmstore/resp/command"
)

// nvmeOptions concern a volume on an NVMe controller that this program drives itself.
type nvmeOptions struct {
	address       string // vfio:0000:01:00.0; empty: the volume is in a file
	parsed        vfio.Address
	queues, depth int
	noIOMMU       bool

	opened *vfio.Device // until take
	shown  []command.Field
}

// vfioScheme begins the name of a device.
const vfioScheme = "vfio:"

func nvmeSettings() []setting {
	number := func(name, def string, most int, field func(*options) *int, help string) setting {
		return setting{
			name: name, kind: resp.KindInt, def: def, help: help,
			set: func(o *options, v string) error {
				n, err := strconv.Atoi(v)
				if err != nil || n < 1 || n > most {
					return fmt.Errorf("argument must be between 1 and %d inclusive", most)
				}
				*field(o) = n
				return nil
			},
		}
	}
	return []setting{
		{
			name: "device", kind: resp.KindString,
			help: "NVMe controller of the volume, in place of a file: vfio:0000:01:00.0, or vfio:0000:01:00.0/2 for its namespace 2.",
			set: func(o *options, v string) error {
				o.nvme.address, o.nvme.parsed = "", vfio.Address{}
				if v == "" {
					return nil
				}
				address, ok := strings.CutPrefix(v, vfioScheme)
				if !ok {
					return fmt.Errorf("argument must begin with %s", vfioScheme)
				}
				a, err := vfio.ParseAddress(address)
				if err != nil {
					return err
				}
				o.nvme.address, o.nvme.parsed = vfioScheme+a.String(), a
				return nil
			},
		},
		number("nvme-queues", "16", 1024, func(o *options) *int { return &o.nvme.queues },
			"Queue pairs that are asked of the controller. It may grant fewer; then some are shared."),
		number("nvme-depth", "512", 1023, func(o *options) *int { return &o.nvme.depth },
			"Commands at once in a queue pair that is shared."),
		{
			name: "vfio-no-iommu", kind: resp.KindBool, def: "no",
			help: "Allow a controller without an IOMMU: it can reach all memory, which in a confidential guest is only what is shared anyway.",
			set: func(o *options, v string) error {
				if v != "yes" && v != "no" {
					return fmt.Errorf("argument must be 'yes' or 'no'")
				}
				o.nvme.noIOMMU = v == "yes"
				return nil
			},
		},
	}
}

// openNVMe opens the controller, if the volume is on one. Nothing is written: whose volume it is shows only later.
func openNVMe(ctx context.Context, o *options, log zerolog.Logger) error {
	n := &o.nvme
	if n.address == "" {
		return nil
	}
	if o.volume != "" {
		return usageErrorf("the volume is in the file %s, or on the device %s: say one of them", o.volume, n.address)
	}
	warn := func(msg string) { log.Warn().Msg(msg) }
	d, err := openDevice(ctx, func() (*vfio.Device, error) {
		return vfio.OpenDevice(n.parsed, vfio.Options{NoIOMMU: n.noIOMMU}, nvme.Options{Queues: n.queues, Depth: n.depth, Log: warn})
	})
	if err != nil {
		return err
	}
	n.opened = d
	id, g := d.Identity(), d.Geometry()
	n.shown = []command.Field{
		{Name: "device", Value: n.address},
		{Name: "device_model", Value: id.Model},
		{Name: "device_path", Value: d.How()},
		{Name: "device_queue_pairs", Value: strconv.Itoa(d.Pairs())},
		{Name: "dma_memory", Value: d.MemoryKind()},
	}
	log.Info().Str("device", n.address).Str("model", id.Model).Uint64("blocks", uint64(g.Blocks)).Int("block_bytes", g.LogicalBytes).
		Int("queue_pairs", d.Pairs()).Str("by", d.How()).Str("dma_memory", d.MemoryKind()).Msg("the volume is on an NVMe controller")
	return nil
}

// take hands the open device over: who takes it closes it.
func (n *nvmeOptions) take() device.Device {
	d := n.opened
	n.opened = nil
	return d
}

// close closes the device if nobody took it.
func (n *nvmeOptions) close() error {
	if n.opened == nil {
		return nil
	}
	return n.take().Close()
}

// fields are what INFO shows.
func (n *nvmeOptions) fields() []command.Field { return n.shown }

// volumeIsBlank is isBlank for whatever the volume is on.
func (o *options) volumeIsBlank() (bool, error) {
	if o.nvme.opened == nil {
		return isBlank(o.volumePath())
	}
	front, err := readFront(o.nvme.opened)
	return len(bytes.Trim(front, "\x00")) == 0, err
}

// readFrontTimeout bounds readFront, above what the driver itself allows a command.
const readFrontTimeout = 2 * time.Minute

// readFront reads what isBlank looks at.
func readFront(d device.Device) (front []byte, err error) {
	blocks := min(device.BlocksFor(blankBytes), d.Info().Blocks)
	step := min(blocks, d.Info().TransferBlocks)
	q, err := d.NewQueue(1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	buf, err := d.Alloc(step)
	if err != nil {
		return nil, err
	}
	defer d.Free(buf)
	for at := device.BlockCount(0); at < blocks; at += step {
		part := buf[:min(step, blocks-at).Bytes()]
		if err := readOne(q, device.LBA(at), part); err != nil {
			return nil, err
		}
		front = append(front, part...)
	}
	return front, nil
}

func readOne(q device.Queue, at device.LBA, buf []byte) error {
	if n, err := q.Submit([]device.Request{{Op: device.OpRead, LBA: at, Buf: buf}}); err != nil || n != 1 {
		return fmt.Errorf("read block %d: submitted %d: %w", at, n, err)
	}
	var out [1]device.Completion
	n, err := q.Wait(out[:], readFrontTimeout)
	if err == nil && n == 0 {
		err = context.DeadlineExceeded
	}
	return errors.Join(err, out[0].Err)
}
