package resp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cvmstore/keyspace"
	"cvmstore/kvs/rdb"
	"cvmstore/resp/command"
	"cvmstore/resp/script"
	"cvmstore/volume"
)

// functions are the libraries, as they stand in the volume (keyspace.System): the sources one after the other, each behind its length
// (4 bytes), cut into parts.
type functions struct {
	srv    *Server
	engine *script.Engine
	libs   map[string]*script.Library  // by name, lower case
	broken []string                    // sources that this version cannot load: kept
	byName map[string]*script.Function // lower case
	flagMu sync.Mutex
	stats  atomic.Uint64 // libraries << 32 | functions
}

func (f *functions) open(s *Server, e *script.Engine) error {
	f.srv, f.engine = s, e
	f.set(map[string]*script.Library{})
	sources, err := splitSources(s.readParts(nil, functionParts))
	if err != nil {
		return err
	}
	libs := map[string]*script.Library{}
	f.broken = nil
	for _, source := range sources {
		b, err := f.load(nil, source)
		if err == nil {
			err = collide(libs, b)
		}
		if err != nil {
			s.log.Error().Err(err).Msg("a library of functions in the volume cannot be loaded")
			f.broken = append(f.broken, source)
			continue
		}
		libs[strings.ToLower(b.Name)] = b
	}
	f.set(libs)
	return nil
}

func splitSources(all []byte) (sources []string, err error) {
	for len(all) > 0 {
		if len(all) < 4 || uint64(binary.LittleEndian.Uint32(all)) > uint64(len(all)-4) {
			return nil, fmt.Errorf("functions in the volume: malformed: %w", volume.ErrCorrupt)
		}
		n := binary.LittleEndian.Uint32(all)
		sources = append(sources, string(all[4:4+n]))
		all = all[4+n:]
	}
	return sources, nil
}

// set makes libraries the ones in force.
func (f *functions) set(libs map[string]*script.Library) {
	byName := map[string]*script.Function{}
	for _, b := range libs {
		for _, fn := range b.Functions() {
			byName[strings.ToLower(fn.Name)] = fn
		}
	}
	f.flagMu.Lock()
	f.libs, f.byName = libs, byName
	f.flagMu.Unlock()
	f.stats.Store(uint64(len(libs))<<32 | uint64(len(byName)))
}

// find returns a function; with a transaction, the reply depends on the libraries as they are.
func (f *functions) find(t *keyspace.Tx, name string) *script.Function {
	f.see(t)
	return f.byName[strings.ToLower(name)]
}

// see makes the reply depend on the libraries.
func (f *functions) see(t *keyspace.Tx) {
	for i := range uint16(systemPartsMax) {
		if f.srv.space.System().Get(t, functionParts+i) == nil {
			break
		}
	}
}

func (f *functions) flagsOf(name string) script.Flags {
	f.flagMu.Lock()
	defer f.flagMu.Unlock()
	if fn := f.byName[strings.ToLower(name)]; fn != nil {
		return fn.Flags
	}
	return 0
}

func (f *functions) load(h script.Host, source string) (*script.Library, error) {
	name, err := script.LibraryName(source)
	if err != nil {
		return nil, err
	}
	if h == nil {
		h = nobody{}
	}
	return f.engine.Load(h, name, source)
}

// nobody is the host of libraries that are loaded for nobody.
type nobody struct{}

func (nobody) Call([][]byte, int) ([]byte, error) { return nil, errors.New("ERR no client") }
func (nobody) Allowed([][]byte) (bool, bool)      { return false, false }
func (nobody) Log(int, string)                    {}
func (nobody) Tick() error                        { return nil }

// collide reports whether a library's functions are another one's.
func collide(libs map[string]*script.Library, b *script.Library) error {
	names := map[string]bool{}
	for _, fn := range b.Functions() {
		names[strings.ToLower(fn.Name)] = true
	}
	for _, other := range libs {
		if strings.EqualFold(other.Name, b.Name) {
			continue
		}
		for _, fn := range other.Functions() {
			if names[strings.ToLower(fn.Name)] {
				return command.Error("ERR Function " + fn.Name + " already exists")
			}
		}
	}
	return nil
}

// store writes the libraries into the volume, and makes them the ones in force.
func (f *functions) store(c *command.Ctx, libs map[string]*script.Library) error {
	var all []byte
	for _, source := range append(sourcesOf(libs), f.broken...) {
		all = binary.LittleEndian.AppendUint32(all, uint32(len(source)))
		all = append(all, source...)
	}
	if err := f.srv.writeParts(c.Tx, functionParts, all); err != nil {
		return err
	}
	f.set(libs)
	return nil
}

func sourcesOf(libs map[string]*script.Library) (sources []string) {
	for _, name := range slices.Sorted(maps.Keys(libs)) {
		sources = append(sources, libs[name].Source)
	}
	return sources
}

func (v *view) Functions() command.Functions { return &v.s.scripts.funcs }

// Load implements command.Functions.
func (f *functions) Load(c *command.Ctx, source []byte, replace bool) (string, error) {
	if len(source) > systemPartsMax*c.Tx.SystemPartMax() {
		return "", command.Error("ERR the library is too large")
	}
	name, err := script.LibraryName(string(source))
	if err != nil {
		return "", err
	}
	if !replace && f.libs[strings.ToLower(name)] != nil {
		return "", command.Error("ERR Library '" + name + "' already exists")
	}
	b, err := f.load(nil, string(source))
	if err != nil {
		return "", err
	}
	libs := maps.Clone(f.libs)
	delete(libs, strings.ToLower(name))
	if err := collide(libs, b); err != nil {
		return "", err
	}
	libs[strings.ToLower(name)] = b
	return name, f.store(c, libs)
}

// Delete implements command.Functions.
func (f *functions) Delete(c *command.Ctx, name []byte) error {
	key := strings.ToLower(string(name))
	f.see(c.Tx)
	if f.libs[key] == nil {
		return command.Error("ERR Library not found")
	}
	libs := maps.Clone(f.libs)
	delete(libs, key)
	return f.store(c, libs)
}

// Flush implements command.Functions.
func (f *functions) Flush(c *command.Ctx) error {
	if !c.Rehearsal {
		f.broken = nil
	}
	return f.store(c, map[string]*script.Library{})
}

// Dump implements command.Functions.
func (f *functions) Dump(c *command.Ctx) []byte {
	f.see(c.Tx)
	return rdb.AppendFunctions(nil, sourcesOf(f.libs))
}

// Restore implements command.Functions.
func (f *functions) Restore(c *command.Ctx, payload []byte, policy string) error {
	sources, err := rdb.ParseFunctions(payload, systemPartsMax*c.Tx.SystemPartMax())
	if err != nil {
		return err
	}
	libs := map[string]*script.Library{}
	if policy != "flush" {
		libs = maps.Clone(f.libs)
	}
	for _, source := range sources {
		b, err := f.load(nil, source)
		if err != nil {
			return err
		}
		key := strings.ToLower(b.Name)
		if policy == "append" && libs[key] != nil {
			return command.Error("ERR Library " + b.Name + " already exists")
		}
		delete(libs, key)
		if err := collide(libs, b); err != nil {
			return err
		}
		libs[key] = b
	}
	return f.store(c, libs)
}

// List implements command.Functions.
func (f *functions) List(c *command.Ctx) (list []command.LibraryInfo) {
	f.see(c.Tx)
	for _, name := range slices.Sorted(maps.Keys(f.libs)) {
		b := f.libs[name]
		info := command.LibraryInfo{Name: b.Name, Source: b.Source}
		for _, fn := range b.Functions() {
			info.Functions = append(info.Functions, command.FunctionInfo{
				Name: fn.Name, Description: fn.Description, Described: fn.Described(), Flags: fn.Flags.Names(),
			})
		}
		list = append(list, info)
	}
	return list
}

// Stats implements command.Functions.
func (f *functions) Stats() command.FunctionStats {
	st := f.stats.Load()
	out := command.FunctionStats{Libraries: int(st >> 32), Functions: int(st & 0xffffffff)}
	if r := f.srv.scripts.running.Load(); r != nil && r.slow.Load() {
		out.Running, out.Name, out.Command, out.Took = true, r.name, r.args, time.Duration(nanos()-r.since)
	}
	return out
}
