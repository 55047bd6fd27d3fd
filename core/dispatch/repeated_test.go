// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
)

// An operator may set a longer block_query_wait than servers allow. The node then gets an
// answer without news, and no error.
func TestAQuestionThatWouldWaitTooLongIsAnsweredWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		tx := store.Begin()
		tx.SetIndex(7)
		tx.Commit()
		d := &Dispatcher{cfg: Config{Store: store}}
		begun := time.Now()
		q := waitFor{key: state.Key{Table: state.TableVariables}, since: 7, wait: 24 * time.Hour}
		answer, err := repeated(t.Context(), d, rpc.Identity{}, q, func() (string, uint64, error) { return "as before", 7, nil })
		if err != nil || answer != "as before" {
			t.Errorf("the answer is %q, %v", answer, err)
		}
		if took := time.Since(begun); took != queryWait {
			t.Errorf("it took %s", took)
		}
	})
}
