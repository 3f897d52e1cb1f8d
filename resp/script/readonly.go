package script

import lua "github.com/yuin/gopher-lua"

// Tables that scripts share are not handed to them: they get an empty table in front of each, whose metatable reads from the
// real one and refuses writes. What could look behind that (pairs, next, rawget, setmetatable ...) is replaced in base.go.

const errReadOnly = "Attempt to modify a readonly table"

// guarded is what is known of tables that stand in front of others.
type guarded struct {
	real   map[*lua.LTable]*lua.LTable // by front: what it stands for
	metas  map[*lua.LTable]*lua.LTable // by metatable of a front: the front of that metatable
	refuse *lua.LFunction
}

func newGuarded(l *lua.LState) *guarded {
	return &guarded{
		real: map[*lua.LTable]*lua.LTable{}, metas: map[*lua.LTable]*lua.LTable{},
		refuse: l.NewFunction(func(l *lua.LState) int {
			l.RaiseError(errReadOnly)
			return 0
		}),
	}
}

// front returns a read-only table that shows t.
func (g *guarded) front(l *lua.LState, t *lua.LTable) *lua.LTable {
	f := g.bare(l, t, t)
	meta := f.Metatable.(*lua.LTable)
	g.metas[meta] = g.bare(l, meta, meta)
	return f
}

// bare is front for a table whose metatable nobody gets.
func (g *guarded) bare(l *lua.LState, t *lua.LTable, index lua.LValue) *lua.LTable {
	f, meta := l.NewTable(), l.NewTable()
	meta.RawSetString("__index", index)
	meta.RawSetString("__newindex", g.refuse)
	f.Metatable = meta
	g.real[f] = t
	return f
}

// behind returns the table to read from.
func (g *guarded) behind(t *lua.LTable) *lua.LTable {
	if r := g.real[t]; r != nil {
		return r
	}
	return t
}

// writable raises an error if t, an argument of a library function, is read-only.
func (g *guarded) writable(l *lua.LState, v lua.LValue) {
	t, ok := v.(*lua.LTable)
	if !ok {
		return
	}
	if g.real[t] != nil || g.metas[t] != nil {
		l.Error(lua.LString(errReadOnly), 0)
	}
}
