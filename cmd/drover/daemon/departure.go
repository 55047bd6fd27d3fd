// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// departure is the drain by which a node makes itself ineligible when it is shut down, until
// it is back. A node that was ineligible before stays so, and what operators change after the
// return is not undone at the next start.
type departure struct {
	ask    func(ctx context.Context, method, what string, body, answer any) error
	nodeID string
	file   string // names the departure from which the node has returned last
}

// Keys and values in the metadata of a drain.
const (
	drainedBy       = "message"
	departureKey    = "departure" // tells the drains of a node apart
	leftByItself    = "shutting down"
	leftIneligible  = "shutting down; the node was ineligible before and stays so"
	departurePause  = 500 * time.Millisecond // between the first two tries; it doubles
	departurePauses = 10 * time.Second
	// departureTries is how long a node tries to begin its drain: servers may be without a
	// leader for a moment, but a machine that is shut down cannot wait for them for ever.
	departureTries = time.Minute
)

// begin starts the drain.
func (d *departure) begin(ctx context.Context, spec api.DrainSpec) error {
	ctx, cancel := context.WithTimeout(ctx, departureTries)
	defer cancel()
	return insist(ctx, func() error {
		var n model.Node
		if err := d.ask(ctx, http.MethodGet, "", nil, &n); err != nil {
			return err
		}
		meta := map[string]string{drainedBy: leftByItself, departureKey: uuid.NewString()}
		if n.SchedulingEligibility == model.NodeSchedulingIneligible && !d.pending(&n) {
			meta[drainedBy] = leftIneligible
		}
		return d.ask(ctx, http.MethodPut, "/drain", &api.NodeDrainRequest{NodeID: d.nodeID, DrainSpec: &spec, Meta: meta}, nil)
	})
}

// pending reports whether the node's last drain is a departure from which it has not returned.
func (d *departure) pending(n *model.Node) bool {
	if n.LastDrain == nil || n.LastDrain.Meta[drainedBy] != leftByItself {
		return false
	}
	returned, err := os.ReadFile(d.file)
	return err != nil || string(returned) != nameOf(n.LastDrain)
}

// nameOf returns what tells a departure from others. Those of older releases have no name.
func nameOf(last *model.DrainMetadata) string {
	return cmp.Or(last.Meta[departureKey], last.StartedAt.UTC().Format(time.RFC3339Nano))
}

// end makes the node eligible again if its departure had made it ineligible.
func (d *departure) end(ctx context.Context) error {
	return insist(ctx, func() error {
		var n model.Node
		if err := d.ask(ctx, http.MethodGet, "", nil, &n); err != nil {
			return err
		}
		if !d.pending(&n) {
			return nil
		}
		var err error
		switch {
		case n.DrainStrategy != nil: // the agent ended during the drain
			err = d.ask(ctx, http.MethodPut, "/drain", &api.NodeDrainRequest{NodeID: d.nodeID, MarkEligible: true}, nil)
		case n.SchedulingEligibility == model.NodeSchedulingIneligible:
			err = d.ask(ctx, http.MethodPut, "/eligibility", &api.NodeEligibilityRequest{NodeID: d.nodeID, Eligibility: model.NodeSchedulingEligible}, nil)
		}
		if err != nil {
			return err
		}
		if err := durable.WriteFile(d.file, []byte(nameOf(n.LastDrain)), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("note that the node has returned: %w", err)
		}
		return nil
	})
}

// insist repeats what servers cannot do for the moment, until ctx ends.
func insist(ctx context.Context, do func() error) error {
	for pause := departurePause; ; pause = min(2*pause, departurePauses) {
		err := do()
		if err == nil || !errdefs.IsUnavailable(err) {
			return err
		}
		if sleep.For(ctx, pause) != nil {
			return err
		}
	}
}
