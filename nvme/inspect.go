package nvme

import (
	"errors"
	"fmt"
)

// Namespace is one namespace as Inspect found it.
type Namespace struct {
	Geometry Geometry
	Err      error // why this driver cannot use it, nil if it can
}

// namespacesShown bounds what Inspect asks for.
const namespacesShown = 64

// Inspect says what the controller and its namespaces are. It reads and writes no block.
func Inspect(bar Bar, dma DMA, o Options) (id Identity, all []Namespace, err error) {
	o.defaults()
	d := &Device{opts: o, bar: bar, dma: dma}
	if d.ctrl, err = newController(bar, dma, &d.opts); err != nil {
		return id, nil, fmt.Errorf("nvme: %w", err)
	}
	defer func() {
		stopped := d.stopLocked()
		if stopped == nil {
			d.ctrl.freeMemory()
		}
		if err = errors.Join(err, stopped); err != nil {
			err = fmt.Errorf("nvme: %w", err)
		}
	}()
	if err = d.ctrl.disable(); err != nil {
		return id, nil, err
	}
	if err = d.ctrl.start(); err != nil {
		return id, nil, err
	}
	if id, err = d.ctrl.identity(); err != nil {
		return id, nil, err
	}
	numbers, err := d.ctrl.active(id)
	if err != nil {
		return id, nil, err
	}
	for _, n := range numbers[:min(len(numbers), namespacesShown)] {
		page, err := d.ctrl.identify(fmt.Sprintf("namespace %d", n), cnsNamespace, n)
		if err != nil {
			return id, all, err
		}
		g, wrong := parseNamespace(page, n)
		g.Namespace = n
		all = append(all, Namespace{g, wrong})
	}
	return id, all, nil
}
