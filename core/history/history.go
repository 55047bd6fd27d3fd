// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Defaults of Config.
const (
	DefaultMaxAge   = 30 * 24 * time.Hour
	DefaultMaxBytes = 32 << 20
)

// warnEvery is the shortest time between two warnings in the log.
const warnEvery = time.Minute

// Config says where and how much a History keeps.
type Config struct {
	Dir      string // "": nothing is kept
	MaxAge   time.Duration
	MaxBytes int64 // of deployments and of evaluations half each; 0 or less: nothing is kept
	// Reserve is the free space of the disk below which nothing is written.
	Reserve uint64
	Server  string // id of the server
	Now     func() time.Time
	Logger  hclog.Logger
}

// History is the history of one server. Its methods are safe for concurrent use.
type History struct {
	cfg   Config
	feed  *state.Feed // nil: nothing is kept
	space *durable.Guard

	mu     sync.Mutex // held while the store is used
	store  *store     // nil while it is closed
	closed bool
	gaps
}

// gaps says what the history lacks that was removed since the process started.
type gaps struct {
	lost    int    // objects that are known to be missing
	unknown bool   // changes were lost, so there may be more
	why     string // the newest reason
	warned  time.Time
}

// New returns a History that learns of every row that is removed after the call. Run must
// follow.
func New(cfg Config, from *state.Store) *History {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	// The directory does not exist yet; the one above does.
	h := &History{cfg: cfg, space: durable.New(filepath.Dir(cfg.Dir), cfg.Reserve)}
	if h.keeps() {
		h.feed = from.Subscribe(state.TableDeployments, state.TableEvals)
	}
	return h
}

func (h *History) keeps() bool { return h.cfg.Dir != "" && h.cfg.MaxBytes > 0 && h.cfg.MaxAge > 0 }

func (h *History) limits() limits { return limits{age: h.cfg.MaxAge, bytes: h.cfg.MaxBytes / 2} }

// Run writes what is removed from the state until ctx ends.
func (h *History) Run(ctx context.Context) {
	defer h.close()
	if !h.keeps() {
		h.forget()
		return
	}
	defer h.feed.Close()
	for {
		batch, err := h.feed.Next(ctx)
		if err != nil {
			return // ctx has ended
		}
		if batch.Resync {
			h.miss(0, errdefs.Abortedf("a snapshot was installed or restored, or more was removed at once than could be written"))
			continue
		}
		if removed := removedBy(batch.Changes); len(removed) > 0 {
			h.keep(removed)
		}
	}
}

// removedBy returns the records of the rows that changes have removed.
func removedBy(changes []state.Change) (out []record) {
	for i := range changes {
		if r, ok := recordOf(&changes[i]); ok {
			out = append(out, r)
		}
	}
	return out
}

// forget removes the history of an earlier configuration from the disk.
func (h *History) forget() {
	if h.cfg.Dir == "" {
		return
	}
	if _, err := os.Stat(h.cfg.Dir); err != nil {
		return // there is none
	}
	if err := os.RemoveAll(h.cfg.Dir); err != nil {
		h.cfg.Logger.Warn("the history is off, and what it held cannot be removed; remove the directory", "directory", h.cfg.Dir, "error", err)
		return
	}
	h.cfg.Logger.Info("the history is off: what it held is removed", "directory", h.cfg.Dir)
}

// keep writes records.
func (h *History) keep(records []record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if err := h.space.Check(); err != nil {
		h.missed(len(records), err)
		return
	}
	if err := h.open(); err != nil {
		h.missed(len(records), err)
		return
	}
	if lost, err := h.store.write(records, h.cfg.Now(), h.limits()); err != nil {
		h.missed(lost, err)
		h.used(err)
	}
}

// open opens the store. A damaged one is removed: it is a cache, and a restart must not
// find the same damage again. The lock must be held.
func (h *History) open() error {
	if h.store != nil {
		return nil
	}
	if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the history: %w", err)
	}
	s, err := openStore(h.cfg.Dir, h.cfg.Logger)
	if errdefs.IsFailedPrecondition(err) {
		h.missed(0, fmt.Errorf("it begins anew, because it was damaged: %w", err))
		if failed := os.RemoveAll(h.cfg.Dir); failed != nil {
			return errors.Join(err, failed)
		}
		if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
			return fmt.Errorf("make the directory of the history: %w", err)
		}
		s, err = openStore(h.cfg.Dir, h.cfg.Logger)
	}
	if err != nil {
		return fmt.Errorf("open the history: %w", err)
	}
	h.store = s
	return nil
}

// used looks at the error of a use of the store. A store that was damaged while it rested
// is closed, so that the next use removes it. The lock must be held.
func (h *History) used(err error) {
	if errdefs.IsFailedPrecondition(err) {
		h.shut()
	}
}

// shut closes the store. The lock must be held.
func (h *History) shut() {
	if h.store == nil {
		return
	}
	if err := h.store.db.Close(); err != nil && !errdefs.IsResourceExhausted(err) { // then it is as after a crash
		h.missed(0, fmt.Errorf("close the history: %w", err))
	}
	h.store = nil
}

func (h *History) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.shut()
}

// miss notes that objects are missing; lost is 0 if their number is not known.
func (h *History) miss(lost int, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missed(lost, why)
}

// missed is miss with the lock held.
func (h *History) missed(lost int, why error) {
	h.lost += lost
	h.unknown = h.unknown || lost == 0
	h.why = why.Error()
	now := h.cfg.Now()
	if now.Sub(h.warned) < warnEvery {
		return
	}
	h.warned = now
	h.cfg.Logger.Warn("removed deployments and evaluations are missing in the history of this server", "missing", h.lost, "error", why)
}

// missing says what is missing, "" if nothing is known to be.
func (g *gaps) missing() string {
	switch {
	case g.unknown && g.lost > 0:
		return fmt.Sprintf("at least %d removed objects are missing in the history of this server, at last because of this: %s", g.lost, g.why)
	case g.unknown:
		return "removed objects are missing in the history of this server, because of this: " + g.why
	case g.lost > 0:
		return fmt.Sprintf("%d removed objects are missing in the history of this server, at last because of this: %s", g.lost, g.why)
	}
	return ""
}

// Deployments returns the removed deployments that a query selects, in no order.
func (h *History) Deployments(ctx context.Context, q model.PastQuery) ([]*model.PastDeployment, model.HistoryExtent, error) {
	list, extent, err := ask[model.Deployment](ctx, h, deployments, q)
	out := make([]*model.PastDeployment, len(list))
	for i, f := range list {
		out[i] = &model.PastDeployment{Deployment: f.object, CollectedAt: f.at}
	}
	return out, extent, err
}

// Evaluations returns the removed evaluations that a query selects, in no order.
func (h *History) Evaluations(ctx context.Context, q model.PastQuery) ([]*model.PastEvaluation, model.HistoryExtent, error) {
	list, extent, err := ask[model.Evaluation](ctx, h, evaluations, q)
	out := make([]*model.PastEvaluation, len(list))
	for i, f := range list {
		out[i] = &model.PastEvaluation{Evaluation: f.object, CollectedAt: f.at}
	}
	return out, extent, err
}

// ask reads from the store, which it opens if there is one.
func ask[T any](ctx context.Context, h *History, of kind, q model.PastQuery) ([]found[T], model.HistoryExtent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	extent := model.HistoryExtent{Server: h.cfg.Server, Missing: h.missing()}
	switch {
	case h.closed && h.keeps():
		return nil, extent, errdefs.Unavailablef("this server is being stopped; ask another one")
	case h.cfg.Dir == "":
		extent.Missing = "this server has no data directory, so it keeps no history"
		return nil, extent, nil
	case !h.keeps():
		extent.Missing = "the history of this server is off (server.history_max_size, history_max_age)"
		return nil, extent, nil
	}
	if h.store == nil {
		if _, err := os.Stat(h.cfg.Dir); errors.Is(err, os.ErrNotExist) {
			return nil, extent, nil // nothing has been removed yet
		}
		if err := h.open(); err != nil {
			return nil, extent, err
		}
		extent.Missing = h.missing()
	}
	list, unread, err := scan[T](ctx, h.store, of, q, h.cfg.Now().Add(-h.cfg.MaxAge))
	if err != nil {
		h.used(err)
		return nil, extent, fmt.Errorf("read the history: %w", err)
	}
	if unread > 0 {
		h.missed(0, errdefs.Internalf("%d objects in it cannot be read", unread))
		extent.Missing = h.missing()
	}
	extent.Since = h.store.oldest(of)
	return list, extent, nil
}
