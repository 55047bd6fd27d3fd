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

// Codec turns rows into bytes and back. Equal rows must give equal bytes: the
// saved stream of equal states is equal.
type Codec interface {
	Append(dst []byte, row any) ([]byte, error)
	Decode(data []byte, row any) error
}

// Kinds of records in a saved stream. They are part of the snapshot format:
// never change a number.
const (
	recHeader       = 1
	recEnd          = 2
	recNamespace    = 3
	recPool         = 4
	recConfig       = 5
	recNode         = 6
	recJob          = 7
	recSummary      = 8
	recEval         = 9
	recDeployment   = 10
	recResources    = 11 // referred to by the allocs after it, numbered from 1
	recMetrics      = 12 // the same
	recAlloc        = 13
	recVariable     = 40
	recRootKey      = 41
	recPlugin       = 60
	recLaunch       = 14
	recGroup        = 15 // referred to by the jobs after it, numbered from 1
	recJobShared    = 16
	recDriverSchema = 61
	recCluster      = 70
)

// savedHeader begins a stream. Tables holds the index of the last change by the
// name of the table, Removed that of the last removal of a row.
type savedHeader struct {
	Index   uint64
	Tables  map[string]uint64
	Removed map[string]uint64
}

// savedAlloc is an alloc without what it shares with others.
type savedAlloc struct {
	Alloc     *model.Allocation
	Resources uint32
	Metrics   uint32
}

// Save writes the view, table by table, each ordered by id. What is derived from
// allocs alone (node usage) or from nodes alone (uses of drivers) is left out.
func (v *View) Save(w io.Writer, codec Codec) error {
	s := &saver{w: bufio.NewWriterSize(w, 256<<10), codec: codec}
	header := savedHeader{Index: v.index, Tables: map[string]uint64{}, Removed: map[string]uint64{}}
	for i, name := range tableNames {
		header.Tables[name], header.Removed[name] = v.t.changed[i], v.t.removed[i]
	}
	s.record(recHeader, &header)
	saveTable(s, recNamespace, v.t.namespaces)
	saveTable(s, recPool, v.t.pools)
	if v.t.config != nil {
		s.record(recConfig, v.t.config)
	}
	if v.t.cluster != nil {
		s.record(recCluster, v.t.cluster)
	}
	saveTable(s, recNode, v.t.nodes)
	s.jobs(v.t.jobs)
	saveTable(s, recSummary, v.t.summaries)
	saveTable(s, recEval, v.t.evals)
	saveTable(s, recDeployment, v.t.deployments)
	saveTable(s, recVariable, v.t.variables)
	saveTable(s, recRootKey, v.t.rootKeys)
	saveTable(s, recPlugin, v.t.plugins)
	saveTable(s, recLaunch, v.t.launches)
	saveTable(s, recDriverSchema, v.t.driverSchemas)
	s.allocs(v.t.allocs)
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

// allocs writes each distinct set of resources and of metrics once.
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

// sharer numbers distinct values by their bytes, so that the numbers do not
// depend on which pointers happen to be shared.
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

// Restore replaces everything in the store by a saved stream and has every
// watcher and feed look again.
func (s *Store) Restore(r io.Reader, codec Codec) error {
	tx := s.Begin()
	fresh := newTables()
	tx.t, tx.restore = fresh, true
	l := &loader{tx: tx, r: bufio.NewReaderSize(r, 256<<10), codec: codec, strings: map[string]string{}}
	if err := l.load(); err != nil {
		s.mu.Unlock() // fresh is dropped; the store is as it was
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
	for i, name := range tableNames {
		l.tx.t.changed[i], l.tx.t.removed[i] = l.header.Tables[name], l.header.Removed[name]
		if l.header.Removed == nil { // of an earlier build: it may have been the last change
			l.tx.t.removed[i] = l.header.Tables[name]
		}
	}
	return nil
}

// maxRecord bounds one record, so that damaged bytes cannot ask for all memory.
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
	t := l.tx.t
	switch kind {
	case recHeader:
		return l.codec.Decode(data, &l.header)
	case recNamespace:
		return loadRow(l, t.namespaces, data)
	case recPool:
		return loadRow(l, t.pools, data)
	case recConfig:
		t.config = &model.SchedulerConfiguration{}
		return l.codec.Decode(data, t.config)
	case recCluster:
		t.cluster = &model.Cluster{}
		return l.codec.Decode(data, t.cluster)
	case recNode:
		return l.node(data)
	case recGroup:
		g := &model.TaskGroup{}
		l.groups = append(l.groups, g)
		return l.codec.Decode(data, g)
	case recJobShared:
		return l.job(data)
	case recJob: // of snapshots of earlier builds
		return loadRow(l, t.jobs, data)
	case recSummary:
		return loadRow(l, t.summaries, data)
	case recEval:
		return loadRow(l, t.evals, data)
	case recDeployment:
		return loadRow(l, t.deployments, data)
	case recLaunch:
		return loadRow(l, t.launches, data)
	case recVariable:
		return loadRow(l, t.variables, data)
	case recRootKey:
		return loadRow(l, t.rootKeys, data)
	case recDriverSchema:
		return loadRow(l, t.driverSchemas, data)
	case recPlugin:
		return loadRow(l, t.plugins, data)
	case recResources:
		r := &model.AllocatedResources{}
		l.resources = append(l.resources, r)
		return l.codec.Decode(data, r)
	case recMetrics:
		m := &model.AllocMetric{}
		l.metrics = append(l.metrics, m)
		return l.codec.Decode(data, m)
	case recAlloc:
		return l.alloc(data)
	}
	return errdefs.InvalidArgumentf("unknown kind; the snapshot was written by a newer version: upgrade this server first")
}

func loadRow[R any](l *loader, t *table[R], data []byte) error {
	row := new(R)
	if err := l.codec.Decode(data, row); err != nil {
		return err
	}
	t.put(row)
	return nil
}

func (l *loader) node(data []byte) error {
	n := &model.Node{}
	if err := l.codec.Decode(data, n); err != nil {
		return err
	}
	l.tx.t.nodes.put(n)
	l.tx.accountDrivers(nil, n)
	return nil
}

func (l *loader) alloc(data []byte) error {
	var row savedAlloc
	if err := l.codec.Decode(data, &row); err != nil {
		return err
	}
	a := row.Alloc
	if a == nil || int(row.Resources) > len(l.resources) || int(row.Metrics) > len(l.metrics) {
		return errdefs.InvalidArgumentf("an alloc refers to what is not in the stream; the snapshot is damaged")
	}
	if row.Resources > 0 {
		a.AllocatedResources = l.resources[row.Resources-1]
	}
	if row.Metrics > 0 {
		a.Metrics = l.metrics[row.Metrics-1]
	}
	Intern(a, l.intern)
	l.tx.t.allocs.put(a)
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

// Intern makes an alloc share the strings that it has in common with others.
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
