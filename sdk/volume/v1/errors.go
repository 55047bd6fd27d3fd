// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

// Reasons of errors, as errdefs.WithReason sets them.
const (
	// ReasonPending (Aborted): another call for the volume has not ended. Repeat it later.
	ReasonPending = "pending"
	// ReasonNoVolume (NotFound): the storage system does not have the volume, as opposed to
	// the node or the source.
	ReasonNoVolume = "no_volume"
	// ReasonNoNode (NotFound): the storage system does not have the node.
	ReasonNoNode = "no_node"
	// ReasonNoSource (NotFound): the volume or snapshot to begin with does not exist.
	ReasonNoSource = "no_source"
	// ReasonInUse (FailedPrecondition): the volume is in use, or snapshots depend on it.
	ReasonInUse = "in_use"
	// ReasonElsewhere (FailedPrecondition): the volume is at another node and cannot be at
	// both. Detail "node" names that node if it is known.
	ReasonElsewhere = "elsewhere"
	// ReasonNotStaged (FailedPrecondition): Stage must come first.
	ReasonNotStaged = "not_staged"
	// ReasonOffline (FailedPrecondition): the volume can be expanded only while no node has
	// it.
	ReasonOffline = "offline"
	// ReasonTooMany (ResourceExhausted): the node has its maximum number of volumes.
	ReasonTooMany = "too_many"
	// ReasonNoSpace (ResourceExhausted): there is no space, or none where it is needed.
	ReasonNoSpace = "no_space"
	// ReasonSize (InvalidArgument): no volume can have the size.
	ReasonSize = "size"
	// ReasonStartAgain (Aborted): the place in a list is not known any more. List from the
	// beginning.
	ReasonStartAgain = "start_again"
	// ReasonDefective (Internal): the storage driver broke the rules, for example by an
	// answer about another volume. Its answer was not used.
	ReasonDefective = "defective"
)
