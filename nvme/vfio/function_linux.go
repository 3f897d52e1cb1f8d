package vfio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"cvmstore/nvme"
)

// Function is a PCI function that is ours, as long as it is open. It implements nvme.Bar, nvme.Mapped and
// nvme.FunctionResetter.
type Function struct {
	address Address
	backend backend
	fd      int
	bar     []byte
	config  regionInfo
	reset   bool
	dma     *dma
}

var (
	_ nvme.Mapped           = (*Function)(nil)
	_ nvme.FunctionResetter = (*Function)(nil)
)

// Bounds of a BAR: the registers and a doorbell, and what no controller needs.
const (
	barBytesMin = 0x1008
	barBytesMax = 64 << 20
)

// Registers of PCI configuration space.
const (
	pciCommand       = 0x04
	commandMemory    = 1 << 1
	commandMaster    = 1 << 2
	commandNoINTx    = 1 << 10
	pciPowerControl  = 4 // in the power management capability
	powerStateMask   = 3
	configSpaceBytes = 256
)

// Open takes the function at an address: nobody else has it until Close. The device is told nothing yet but to answer.
func Open(a Address, o Options) (_ *Function, err error) {
	f := &Function{address: a, fd: -1}
	if f.backend, f.fd, err = openBackend(a, o.NoIOMMU); err != nil {
		return nil, fmt.Errorf("vfio %s: %w", a.PCI, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("vfio %s: %w", a.PCI, err)
			_ = f.Close()
		}
	}()
	info := deviceInfo{argsz: 24}
	if err = control(f.fd, vfioDeviceGetInfo, &info); err != nil {
		return nil, fmt.Errorf("ask the device: %w", err)
	}
	if info.flags&deviceIsPCI == 0 {
		return nil, errors.New("it is no PCI device")
	}
	f.reset = info.flags&deviceCanReset != 0
	if err = f.openRegions(); err != nil {
		return nil, err
	}
	if err = f.wake(); err != nil {
		return nil, err
	}
	s, err := chooseSource("/")
	if err != nil {
		return nil, err
	}
	if f.dma, err = newDMA(f.backend, s); err != nil {
		return nil, err
	}
	if o.Log != nil {
		o.Log(fmt.Sprintf("%s: %s, memory for DMA: %s", a.PCI, f.backend.name(), s.kind))
	}
	return f, nil
}

func (f *Function) region(index uint32) (regionInfo, error) {
	r := regionInfo{argsz: 32, index: index}
	if err := control(f.fd, vfioDeviceGetRegion, &r); err != nil {
		return r, fmt.Errorf("ask for region %d: %w", index, err)
	}
	return r, nil
}

// openRegions maps BAR 0 and finds configuration space.
func (f *Function) openRegions() error {
	bar, err := f.region(regionBAR0)
	if err != nil {
		return err
	}
	if bar.size < barBytesMin || bar.size > barBytesMax || bar.flags&regionMmap == 0 {
		return fmt.Errorf("BAR 0 of %d bytes, flags %#x: it cannot be mapped", bar.size, bar.flags)
	}
	f.bar, err = unix.Mmap(f.fd, int64(bar.offset), int(bar.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map BAR 0: %w", err)
	}
	if f.config, err = f.region(regionConfig); err != nil {
		return err
	}
	if need := uint32(regionRead | regionWrite); f.config.size < configSpaceBytes || f.config.flags&need != need {
		return fmt.Errorf("configuration space of %d bytes, flags %#x", f.config.size, f.config.flags)
	}
	return nil
}

// wake powers the function up, checks that it is an NVMe controller, resets it if it can, and turns memory and bus mastering on.
func (f *Function) wake() error {
	config := new([configSpaceBytes]byte)
	if n, err := unix.Pread(f.fd, config[:], int64(f.config.offset)); err != nil || n != len(config) {
		return fmt.Errorf("read configuration space: %d bytes, error %v", n, err)
	}
	if class := uint32(config[0x0b])<<16 | uint32(config[0x0a])<<8 | uint32(config[0x09]); class != classNVMe {
		return fmt.Errorf("class %#06x: no NVMe controller", class)
	}
	all, err := nvme.Capabilities(config)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.ID != nvme.CapabilityPower || c.Offset+pciPowerControl+2 > len(config) {
			continue
		}
		at := c.Offset + pciPowerControl
		if v := binary.LittleEndian.Uint16(config[at:]); v&powerStateMask != 0 {
			if err := f.writeConfig(at, v&^powerStateMask); err != nil {
				return err
			}
		}
	}
	return f.ResetFunction()
}

// ResetFunction implements nvme.FunctionResetter: bus mastering goes off, then the function is reset, which makes it forget all
// that it was told, then it may reach memory again.
func (f *Function) ResetFunction() error {
	off := uint16(commandMemory | commandNoINTx)
	if err := f.writeConfig(pciCommand, off); err != nil {
		return err
	}
	if f.reset {
		if _, err := controlValue(f.fd, vfioDeviceReset, 0); err != nil {
			return fmt.Errorf("reset the function: %w", err)
		}
	}
	if err := f.writeConfig(pciCommand, off|commandMaster); err != nil {
		return err
	}
	if !f.reset {
		return errors.New("the function cannot be reset")
	}
	return nil
}

func (f *Function) writeConfig(at int, v uint16) error {
	var b [2]byte
	binary.LittleEndian.PutUint16(b[:], v)
	if n, err := unix.Pwrite(f.fd, b[:], int64(f.config.offset)+int64(at)); err != nil || n != len(b) {
		return fmt.Errorf("write configuration space at %#x: %d bytes, error %v", at, n, err)
	}
	return nil
}

// DMA returns memory that the function can reach.
func (f *Function) DMA() nvme.DMA { return f.dma }

// How says by which way the function is reached, for people.
func (f *Function) How() string { return f.backend.name() }

// Size implements nvme.Bar.
func (f *Function) Size() int { return len(f.bar) }

// Register implements nvme.Mapped.
func (f *Function) Register(off int) *uint32 {
	if off < 0 || off%4 != 0 || off > len(f.bar)-4 {
		panic("internal error: register outside of the BAR")
	}
	return register32(f.bar, off)
}

// Read32 implements nvme.Bar.
func (f *Function) Read32(off int) uint32 { return nvme.LoadRegister32(f.Register(off)) }

// Write32 implements nvme.Bar.
func (f *Function) Write32(off int, v uint32) { nvme.StoreRegister32(f.Register(off), v) }

// Read64 implements nvme.Bar.
func (f *Function) Read64(off int) uint64 { return nvme.LoadRegister64(f.register64(off)) }

// Write64 implements nvme.Bar.
func (f *Function) Write64(off int, v uint64) { nvme.StoreRegister64(f.register64(off), v) }

func (f *Function) register64(off int) *uint64 {
	if off < 0 || off%8 != 0 || off > len(f.bar)-8 {
		panic("internal error: register outside of the BAR")
	}
	return register64(f.bar, off)
}

// Close gives the function up: it reaches no memory any more.
func (f *Function) Close() error {
	var err error
	if f.fd >= 0 && f.config.size > 0 {
		err = f.writeConfig(pciCommand, commandMemory|commandNoINTx)
	}
	if f.dma != nil {
		err = errors.Join(err, f.dma.close())
	}
	if f.bar != nil {
		err = errors.Join(err, unix.Munmap(f.bar))
	}
	if f.fd >= 0 {
		err = errors.Join(err, unix.Close(f.fd))
	}
	if f.backend != nil {
		err = errors.Join(err, f.backend.close())
	}
	f.fd, f.bar, f.dma, f.backend = -1, nil, nil, nil
	if err != nil {
		return fmt.Errorf("close %s: %w", f.address.PCI, err)
	}
	return nil
}

// MemoryLimit says how much memory may be locked, for people; VFIO counts what is mapped for the device against it.
func MemoryLimit() string {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) != nil || r.Cur == unix.RLIM_INFINITY || os.Getuid() == 0 {
		return "unlimited"
	}
	return fmt.Sprintf("%d KiB", r.Cur>>10)
}
