// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import "github.com/drover-project/drover/core/state"

// RecountJobs recounts the allocs, evals and children of all jobs.
type RecountJobs struct{}

func (*RecountJobs) kind() byte { return kindRecountJobs }

func (*RecountJobs) apply(tx *state.Tx) error {
	tx.RecountJobs()
	return nil
}
