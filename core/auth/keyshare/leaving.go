// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package keyshare

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// look is the pause between two checks of which servers have the keys.
const look = 200 * time.Millisecond

// GiveAway waits until another voter can open all root keys. Otherwise nobody could read
// the variables after the server of ring has left. FailedPrecondition: ctx has ended first.
func GiveAway(ctx context.Context, store *state.Store, ring *keyring.Keyring, voters func() ([]string, error)) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		ids, err := voters()
		if err != nil {
			return err
		}
		if Other(store.View(), ring, ids) != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errdefs.FailedPreconditionf("no other server has received the root keys, so variables could not be read without this one: it stays a member; see the log of the others")
		case <-tick.C:
		}
	}
}

// OpensSnapshot returns an error if the server of ring cannot open the root keys in the
// state of a snapshot. It reads the key files again: the operator may have put the right
// one there.
func OpensSnapshot(ring *keyring.Keyring, of *state.View) error {
	if err := ring.Reread(); err != nil {
		return err
	}
	for root := range of.RootKeys() {
		err := ring.Opens(root)
		if errdefs.IsUnavailable(err) {
			return errdefs.FailedPreconditionf("the snapshot is of a cluster whose servers have other key files, so nobody here could read its variables (root key %s): "+
				"copy %s of one of its servers into the data directory of this server, the leader, as %s, and restore the snapshot again; the file can be removed afterwards", root.KeyID, keyring.FileName, keyring.FormerName)
		}
		if err != nil {
			return fmt.Errorf("the variables in the snapshot cannot be read: %w", err)
		}
	}
	return nil
}
