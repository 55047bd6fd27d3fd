// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Codec encodes rows. Equal rows must have equal encodings, so that equal states have
// equal saved streams.
type Codec interface {
	Append(dst []byte, row any) ([]byte, error)
	Decode(data []byte, row any) error
}

// Kinds of records in a saved stream besides the records of the tables. They are part of
// the snapshot format: never change a number.
const (
	recHeader    = 1
	recEnd       = 2
	recNode      = 6
	recJob       = 7  // in snapshots of earlier builds
	recResources = 11 // allocs that follow refer to it by its number; the first is 1
	recMetrics   = 12 // like recResources
	recAlloc     = 13
	recGroup     = 15 // jobs that follow refer to it by its number; the first is 1
	recJobShared = 16
)

// savedHeader begins a stream. Tables maps the name of each table to the index of its
// last change, Removed to the index of its last removal of a row.
type savedHeader struct {
	Index   uint64
	Tables  map[string]uint64
	Removed map[string]uint64
}

// savedAlloc is an alloc in which shared parts are replaced by their numbers.
type savedAlloc struct {
	Alloc     *model.Allocation
	Resources uint32
	Metrics   uint32
}

// Save writes the view, table by table, each ordered by id. It leaves out rows that
// are derived only from allocs (node usage) or only from nodes (driver uses).
func (v *View) Save(w io.Writer, codec Codec) error {
	s := &saver{w: bufio.NewWriterSize(w, 256<<10), codec: codec}
	header := savedHeader{Index: v.index, Tables: map[string]uint64{}, Removed: map[string]uint64{}}
	for name, k := range named {
		i := k.head().number
		header.Tables[name], header.Removed[name] = v.t.changed[i], v.t.removed[i]
	}
	s.record(recHeader, &header)
	for _, k := range declared {
		k.save(s, v.t)
	}
	s.record(recEnd, true)
	if s.err != nil {
		return fmt.Errorf("saving the state at index %d: %w", v.index, s.err)
	}
	return s.w.Flush()
}

// saver writes records: the kind, the length and the bytes of a row.
type saver struct {
	w     *bufio.Writer
	codec Codec
	buf   []byte
	err   error
}

func saveTable[R any](s *saver, kind byte, t *table[R]) {
	for row := range t.all("") {
		if s.record(kind, row); s.err != nil {
			return
		}
	}
}

func (s *saver) record(kind byte, row any) {
	if s.err != nil {
		return
	}
	if s.buf, s.err = s.codec.Append(s.buf[:0], row); s.err == nil {
		s.write(kind, s.buf)
	}
}

func (s *saver) write(kind byte, data []byte) {
	if s.err != nil {
		return
	}
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = kind
	n := binary.PutUvarint(head[1:], uint64(len(data)))
	if _, s.err = s.w.Write(head[:1+n]); s.err == nil {
		_, s.err = s.w.Write(data)
	}
}

// allocs writes the allocs, and each distinct value of resources and metrics once.
func (s *saver) allocs(t *table[model.Allocation]) {
	resources := newSharer[model.AllocatedResources](recResources)
	metrics := newSharer[model.AllocMetric](recMetrics)
	for a := range t.all("") {
		c := *a
		row := savedAlloc{Alloc: &c, Resources: resources.number(s, a.AllocatedResources), Metrics: metrics.number(s, a.Metrics)}
		c.AllocatedResources, c.Metrics = nil, nil
		if s.record(recAlloc, &row); s.err != nil {
			return
		}
	}
}

// sharer assigns numbers to distinct values. It compares them by their encoding, so
// that the numbers do not depend on which pointers are shared in memory.
type sharer[R any] struct {
	kind    byte
	byRow   map[*R]uint32
	byBytes map[string]uint32
}

func newSharer[R any](kind byte) *sharer[R] {
	return &sharer[R]{kind: kind, byRow: map[*R]uint32{}, byBytes: map[string]uint32{}}
}

func (sh *sharer[R]) number(s *saver, row *R) uint32 {
	if row == nil || s.err != nil {
		return 0
	}
	if n, ok := sh.byRow[row]; ok {
		return n
	}
	if s.buf, s.err = s.codec.Append(s.buf[:0], row); s.err != nil {
		return 0
	}
	n, ok := sh.byBytes[string(s.buf)]
	if !ok {
		n = uint32(len(sh.byBytes) + 1)
		sh.byBytes[string(s.buf)] = n
		s.write(sh.kind, s.buf)
	}
	sh.byRow[row] = n
	return n
}

// Restore replaces the whole state by a saved stream. It wakes all watches and makes
// all feeds resync.
func (s *Store) Restore(r io.Reader, codec Codec) error {
	tx := s.Begin()
	fresh := newTables()
	tx.t, tx.restore = fresh, true
	l := &loader{tx: tx, r: bufio.NewReaderSize(r, 256<<10), codec: codec, strings: map[string]string{}}
	if err := l.load(); err != nil {
		s.mu.Unlock() // the restored tables are dropped; the store is unchanged
		return fmt.Errorf("restoring the state: %w", err)
	}
	tx.settle()
	s.writer = fresh
	view := &View{index: l.header.Index, t: fresh.publish(newTables())}
	s.current.Store(view)
	s.watches.all()
	s.feeds.resync(view.index)
	s.mu.Unlock()
	return nil
}

// loader reads what saver writes.
type loader struct {
	tx        *Tx
	r         *bufio.Reader
	codec     Codec
	header    savedHeader
	groups    []*model.TaskGroup
	resources []*model.AllocatedResources
	metrics   []*model.AllocMetric
	strings   map[string]string
	buf       []byte
}

var errTruncated = errors.New("the stream ends before its end mark")

func (l *loader) load() error {
	for {
		kind, data, err := l.next()
		if err != nil {
			return err
		}
		if kind == recEnd {
			break
		}
		if err := l.row(kind, data); err != nil {
			return fmt.Errorf("record of kind %d: %w", kind, err)
		}
	}
	for name, k := range named {
		i := k.head().number
		l.tx.t.changed[i], l.tx.t.removed[i] = l.header.Tables[name], l.header.Removed[name]
		if l.header.Removed == nil { // written by an earlier build: the last change may have been a removal
			l.tx.t.removed[i] = l.header.Tables[name]
		}
	}
	if _, ok := l.header.Tables[TableServices]; !ok { // written by an earlier build, which derived services from allocs at each request
		i := serviceTable.number
		l.tx.t.changed[i], l.tx.t.removed[i] = l.header.Tables[TableAllocs], l.header.Tables[TableAllocs]
	}
	return nil
}

// maxRecord is the maximum size of a record, so that damaged data cannot make the
// loader allocate all memory.
const maxRecord = 1 << 30

func (l *loader) next() (kind byte, data []byte, err error) {
	if kind, err = l.r.ReadByte(); err != nil {
		return 0, nil, errTruncated
	}
	n, err := binary.ReadUvarint(l.r)
	if err != nil {
		return 0, nil, errTruncated
	}
	if n > maxRecord {
		return 0, nil, errdefs.InvalidArgumentf("a record says that it is %d bytes long; the snapshot is damaged", n)
	}
	if uint64(cap(l.buf)) < n {
		l.buf = make([]byte, n)
	}
	l.buf = l.buf[:n]
	if _, err = io.ReadFull(l.r, l.buf); err != nil {
		return 0, nil, errTruncated
	}
	return kind, l.buf, nil
}

func (l *loader) row(kind byte, data []byte) error {
	if kind == recHeader {
		return l.codec.Decode(data, &l.header)
	}
	if load := loads[kind]; load != nil {
		return load(l, data)
	}
	return errdefs.InvalidArgumentf("unknown kind; the snapshot was written by a newer version: upgrade this server first")
}

// loads maps each kind of record to the function that reads it.
var loads = allLoads()

func allLoads() map[byte]func(*loader, []byte) error {
	out := map[byte]func(*loader, []byte) error{}
	for _, k := range declared {
		for record, load := range k.loads() {
			if out[record] != nil {
				panic(fmt.Sprintf("core/state: two tables read records of kind %d", record))
			}
			out[record] = load
		}
	}
	return out
}

func loadRow[R any](l *loader, t *table[R], data []byte) error {
	row := new(R)
	if err := l.codec.Decode(data, row); err != nil {
		return err
	}
	t.put(row)
	return nil
}

func (l *loader) group(_ *table[jobRow], data []byte) error {
	g := &model.TaskGroup{}
	l.groups = append(l.groups, g)
	return l.codec.Decode(data, g)
}

func (l *loader) resource(_ *table[model.Allocation], data []byte) error {
	r := &model.AllocatedResources{}
	l.resources = append(l.resources, r)
	return l.codec.Decode(data, r)
}

func (l *loader) metric(_ *table[model.Allocation], data []byte) error {
	m := &model.AllocMetric{}
	l.metrics = append(l.metrics, m)
	return l.codec.Decode(data, m)
}

func (l *loader) node(t *table[model.Node], data []byte) error {
	n := &model.Node{}
	if err := l.codec.Decode(data, n); err != nil {
		return err
	}
	t.put(n)
	l.tx.accountDrivers(nil, n)
	l.tx.accountSites(nil, n)
	l.tx.keepUsage(n.ID)
	return nil
}

func (l *loader) alloc(t *table[model.Allocation], data []byte) error {
	var row savedAlloc
	if err := l.codec.Decode(data, &row); err != nil {
		return err
	}
	a := row.Alloc
	if a == nil || int(row.Resources) > len(l.resources) || int(row.Metrics) > len(l.metrics) {
		return errdefs.InvalidArgumentf("an alloc refers to an object that is not in the stream; the snapshot is damaged")
	}
	if row.Resources > 0 {
		a.AllocatedResources = l.resources[row.Resources-1]
	}
	if row.Metrics > 0 {
		a.Metrics = l.metrics[row.Metrics-1]
	}
	Intern(a, l.intern)
	l.share(a.TaskStates)
	t.put(a)
	l.tx.accountAlloc(nil, a)
	return nil
}

func (l *loader) intern(s string) string {
	if t, ok := l.strings[s]; ok {
		return t
	}
	l.strings[s] = s
	return s
}

// share makes the states of tasks share what many of them have in common.
func (l *loader) share(tasks map[string]*model.TaskState) {
	for _, task := range tasks {
		if task == nil {
			continue
		}
		task.State = l.intern(task.State)
		for _, e := range task.Events {
			if e != nil {
				e.Share()
			}
		}
	}
}

// Intern makes an alloc share strings that many allocs have in common.
func Intern(a *model.Allocation, intern func(string) string) {
	for _, s := range []*string{
		&a.Namespace, &a.JobID, &a.TaskGroup, &a.NodeID, &a.NodeName, &a.EvalID, &a.DeploymentID,
		&a.DesiredStatus, &a.DesiredDescription, &a.ClientStatus, &a.ClientDescription, &a.SigningKeyID,
	} {
		if *s != "" {
			*s = intern(*s)
		}
	}
}
