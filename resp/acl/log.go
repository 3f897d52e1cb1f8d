package acl

import (
	"sync"
	"time"
)

// Log is what was denied lately, for ACL LOG. Entries that are alike within a minute are one.
type Log struct {
	mu      sync.Mutex
	entries []*Entry // the newest first
	next    int64
}

// Entry is one line of it.
type Entry struct {
	ID                            int64
	Count                         int64
	Reason, Context, Object, User string
	Client                        string
	Created, Updated              time.Time
}

// alike is how long an entry takes others like it.
const alike = time.Minute

// objectMax bounds what is kept of a name, in bytes.
const objectMax = 256

// Add takes note of a denial; at most limit entries are kept.
func (l *Log) Add(e Entry, limit int) {
	now := time.Now()
	e.Object = e.Object[:min(len(e.Object), objectMax)]
	e.User = e.User[:min(len(e.User), objectMax)]
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, old := range l.entries {
		if old.Reason == e.Reason && old.Context == e.Context && old.Object == e.Object && old.User == e.User && now.Sub(old.Updated) < alike {
			old.Count++
			old.Updated, old.Client = now, e.Client
			copy(l.entries[1:i+1], l.entries[:i])
			l.entries[0] = old
			return
		}
	}
	e.ID, e.Count, e.Created, e.Updated = l.next, 1, now, now
	l.next++
	l.entries = append([]*Entry{&e}, l.entries...)
	l.entries = l.entries[:min(len(l.entries), max(limit, 0))]
}

// List returns up to n entries, the newest first.
func (l *Log) List(n int) (list []Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries[:min(n, len(l.entries))] {
		list = append(list, *e)
	}
	return list
}

// Reset empties it.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
