// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// PastDeployment is a deployment as a list with history shows it. CollectedAt is the time
// at which it was removed from the state; zero if it is still there.
type PastDeployment struct {
	*Deployment
	CollectedAt time.Time `json:",omitzero"`
}

// PastEvaluation is an evaluation as a list with history shows it.
type PastEvaluation struct {
	*Evaluation
	CollectedAt time.Time `json:",omitzero"`
}

// PastQuery selects objects of the history of a server. Empty fields select all.
type PastQuery struct {
	Namespace string
	JobID     string
	Prefix    string // of the id, in lower case; a whole id selects one object
}

// HistoryExtent says what the history of a server can show at all.
type HistoryExtent struct {
	Server  string    // id of the server
	Since   time.Time // of the oldest object of the kind; zero if there is none
	Missing string    // why objects are missing that should be there; "" if none are
}
