package keyspace

import (
	"errors"

	"cvmstore/volume"
)

// Commands that give a value another name or database. The transaction is begun with all names; a value that is on the
// device only is fetched first (ErrMiss). Each is one batch: the put under the new name, and the delete of the old one.

// ErrMoveTooLarge is the answer where value and new name are more than one record holds.
var ErrMoveTooLarge = errors.New("ERR the value is too large for a key of that length")

// passage is a value on its way from one key to another.
type passage struct {
	from, to     []byte
	fromDB, toDB int
	value        []byte
	blob         *volume.Blob // instead of value
	item         Item
	keep         bool // the old key stays
	fromEvent    string
	toEvent      string
}

// look says whether there is a value to move.
func (t *Tx) look(p *passage) (found bool, err error) {
	p.item, err = t.Find(p.from)
	return p.item.Exists(), err
}

// occupied says whether the new key exists.
func (t *Tx) occupied(p *passage) (bool, error) {
	t.Use(p.toDB)
	it, err := t.Find(p.to)
	t.Use(p.fromDB)
	return it.Exists(), err
}

// transfer loads the value, reserves and makes the changes. The expiry goes with the value. A blob stays where it is: the new key
// points to it as well.
func (t *Tx) transfer(p *passage) (err error) {
	if p.item.Large() {
		return t.transferLarge(p)
	}
	if p.value, p.blob, p.item, err = t.View(p.from, p.item.Type); err != nil {
		return err
	}
	if len(p.to) > KeyMax {
		return ErrKeyTooLong
	}
	size := PutSize(len(p.to), len(p.value))
	if p.blob != nil {
		size = PutBlobSize(len(p.to), p.blob)
	}
	if size > t.MaxRecord() {
		return ErrMoveTooLarge
	}
	bytes, records := size, 1
	if !p.keep {
		bytes += DeleteSize(len(p.from))
		records++
	}
	if err := t.Reserve(bytes, records, volume.ClassNormal); err != nil {
		return err
	}
	if p.blob != nil { // between the delete and the put no key refers to it
		p.blob.Retain()
		defer p.blob.Release(0)
	}
	if !p.keep {
		t.Use(p.fromDB)
		t.Remove(p.from, p.fromEvent)
	}
	t.Use(p.toDB)
	o := Put{Type: p.item.Type, Encoding: p.item.Encoding, Expiry: p.item.Expiry, Event: p.toEvent}
	if p.blob != nil {
		t.PutBlob(p.to, o, p.blob)
	} else {
		t.Put(p.to, o, p.value)
	}
	t.Use(p.fromDB)
	return nil
}

// Rename gives the value of one key to another, whatever that held; with nx only if it is absent. found is false if there is
// nothing to rename.
func (t *Tx) Rename(from, to []byte, nx bool) (done, found bool, err error) {
	p := passage{from: from, to: to, fromDB: t.db, toDB: t.db, fromEvent: "rename_from", toEvent: "rename_to"}
	if string(from) == string(to) {
		it, err := t.Find(from)
		return it.Exists() && !nx, it.Exists(), err
	}
	if found, err = t.look(&p); err != nil || !found {
		return false, found, err
	}
	if occupied, err := t.occupied(&p); err != nil || nx && occupied {
		return false, true, err
	}
	err = t.transfer(&p)
	return err == nil, true, err
}

// Move moves a key to another database, unless it exists there.
func (t *Tx) Move(key []byte, db int) (bool, error) {
	p := passage{from: key, to: key, fromDB: t.db, toDB: db, fromEvent: "move_from", toEvent: "move_to"}
	if found, err := t.look(&p); err != nil || !found {
		return false, err
	}
	if occupied, err := t.occupied(&p); err != nil || occupied {
		return false, err
	}
	err := t.transfer(&p)
	return err == nil, err
}

// Copy copies a key to another name, database, or both; over a key that exists only with replace.
func (t *Tx) Copy(from, to []byte, db int, replace bool) (bool, error) {
	p := passage{from: from, to: to, fromDB: t.db, toDB: db, keep: true, toEvent: "copy_to"}
	if found, err := t.look(&p); err != nil || !found {
		return false, err
	}
	if occupied, err := t.occupied(&p); err != nil || occupied && !replace {
		return false, err
	}
	err := t.transfer(&p)
	return err == nil, err
}
