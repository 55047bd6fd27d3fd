// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
)

// The state machine of the servers fits without knowing this package.
var _ consensus.StateMachine = (*fsm.FSM)(nil)
