// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// repeatAfter is the pause between two lines of the log that say the same.
	repeatAfter = 5 * time.Minute
	// repeatKinds limits how many kinds of lines are remembered.
	repeatKinds = 256
)

// attempts are messages of level INFO that raft logs anew for each election that fails.
var attempts = map[string]bool{
	"entering candidate state":                               true,
	"pre-vote campaign failed, waiting for election timeout": true,
}

// repeats passes on the log of raft, which logs every failed attempt: five lines a second
// for each server that is down. The first line about a server and a cause is logged, then
// one in five minutes with the number of those that were left out, and a line when the
// server answers again.
type repeats struct {
	hclog.Logger
	now func() time.Time
	// ending says that the node closes: that raft's connections break then is no news.
	ending atomic.Bool

	mu   sync.Mutex
	seen map[repeat]*repeated
}

// repeat is what a line says: what failed, with which server, and why.
type repeat struct{ text, server, cause string }

type repeated struct {
	logged  time.Time
	omitted int
}

func newRepeats(logger hclog.Logger) *repeats {
	return &repeats{Logger: logger, now: time.Now, seen: map[repeat]*repeated{}}
}

func (r *repeats) Error(text string, args ...any) {
	if r.ending.Load() {
		r.Logger.Debug(text, args...)
		return
	}
	if args, ok := r.fresh(text, args); ok {
		r.Logger.Error(text, args...)
	}
}

func (r *repeats) Warn(text string, args ...any) {
	if r.ending.Load() {
		r.Logger.Debug(text, args...)
		return
	}
	if args, ok := r.fresh(text, args); ok {
		r.Logger.Warn(text, args...)
	}
}

func (r *repeats) Info(text string, args ...any) {
	ok := true
	if attempts[text] {
		args, ok = r.fresh(text, args)
	}
	if ok {
		r.Logger.Info(text, args...)
	}
}

// fresh reports whether a line is to be logged, and with what.
func (r *repeats) fresh(text string, args []any) ([]any, bool) {
	line := repeat{text: text}
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "target", "server-id", "from":
			line.server = nameOf(args[i+1])
		case "error":
			line.cause = causeOf(args[i+1])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	known := r.seen[line]
	if known == nil {
		if len(r.seen) >= repeatKinds {
			clear(r.seen)
		}
		r.seen[line] = &repeated{logged: now}
		return args, true
	}
	if now.Sub(known.logged) < repeatAfter {
		known.omitted++
		return nil, false
	}
	if known.omitted > 0 {
		args = append(args[:len(args):len(args)], "lines_omitted", known.omitted)
	}
	*known = repeated{logged: now}
	return args, true
}

// nameOf returns the id of a server, or its address if that is all that there is.
func nameOf(v any) string {
	if s, ok := v.(raft.Server); ok {
		return string(s.ID)
	}
	return fmt.Sprint(v)
}

// causeOf returns the last part of an error, which has no port of a connection in it.
func causeOf(v any) string {
	text := fmt.Sprint(v)
	return text[strings.LastIndex(text, ": ")+1:]
}

// forget makes the next line about a server fresh, and returns how many were left out. A
// server has an id and an address; without any, everything is forgotten.
func (r *repeats) forget(names ...string) (omitted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line, known := range r.seen {
		about := len(names) == 0
		for _, name := range names {
			about = about || line.server == name
		}
		if about {
			omitted += known.omitted
			delete(r.seen, line)
		}
	}
	return omitted
}

// watchRepeats forgets lines of the log when what they say is over, until ctx ends: those
// about a server when it answers the leader again, all when the leader changes.
func (n *Node) watchRepeats(ctx context.Context, log *repeats) {
	news := make(chan raft.Observation, 16)
	observer := raft.NewObserver(news, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.ResumedHeartbeatObservation:
			return true
		}
		return false
	})
	n.raft.RegisterObserver(observer)
	n.background.Go(func() {
		defer n.raft.DeregisterObserver(observer)
		for {
			select {
			case <-ctx.Done():
				return
			case o := <-news:
				switch o := o.Data.(type) {
				case raft.LeaderObservation:
					log.forget()
				case raft.ResumedHeartbeatObservation:
					n.forgetRepeatsOf(o.PeerID, log)
				}
			}
		}
	})
}

// forgetRepeatsOf forgets the lines of the log about a server that answers again.
func (n *Node) forgetRepeatsOf(id raft.ServerID, log *repeats) {
	names := []string{string(id)}
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.ID == id {
			names = append(names, string(s.Address))
		}
	}
	omitted := log.forget(names...)
	log.Logger.Info("a server answers again", "peer", names[len(names)-1], "server-id", id, "lines_omitted", omitted)
}
