// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"

	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is this contract's name and version.
var Kind = plugin.Kind{Name: "volume", Version: 1}

// Volume offers the volumes of one storage system. All methods may be called at the
// same time from many goroutines. They return soon after their ctx ends; what they
// have begun by then is finished or undone by the call's repetition. A method whose
// capability the plugin does not list is never called, and returns Unimplemented.
type Volume interface {
	Identity
	Controller
	Node
}

// Identity is what every volume plugin has.
type Identity interface {
	// Info says what the plugin is called, what it can do and which configuration
	// it accepts. It does no work and always answers the same.
	Info() Info

	// SetConfig hands over the agent's plugin "NAME" { config { } } block: a JSON
	// object that Info().ConfigSchema has accepted, with defaults filled in. It is
	// called once before anything else and again when the block changes.
	// InvalidArgument: it cannot work as it is.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint says how the plugin is on this node and where the node is: once at
	// once, then whenever something changes. The plugin closes the channel when ctx
	// ends. It must not block on a storage system that is away: it reports that.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)
}

// Controller is what is done in the storage system, from any node.
type Controller interface {
	// Create makes a volume, or returns the one of that name that fits.
	// AlreadyExists: one of that name does not fit. InvalidArgument: parameters,
	// access or source that cannot be. ResourceExhausted: no room, or not there
	// where topology asks for it. NotFound: the source is not there.
	Create(ctx context.Context, r CreateRequest) (*Description, error)

	// Delete removes a volume with its data. One that is not there is no error.
	// FailedPrecondition: it is in use, or snapshots depend on it.
	Delete(ctx context.Context, id string, secrets Secrets) error

	// List returns volumes by id, at most limit (0: the plugin's own bound), those
	// that follow after first; next is "" at the end.
	List(ctx context.Context, limit int, after string) (volumes []Description, next string, err error)

	// Capacity says how much room there is for volumes of that kind, at a place if
	// one is given.
	Capacity(ctx context.Context, r CapacityRequest) (Capacity, error)

	// Expand makes a volume larger, at least to what is required, never smaller. It
	// may be published meanwhile only with the capability expand_online; else it is
	// FailedPrecondition. NotFound: no such volume.
	Expand(ctx context.Context, r ExpandRequest) (Expansion, error)

	// CreateSnapshot makes a snapshot, or returns the one of that name. It returns
	// when the snapshot is cut; Ready may come later, and is seen by the repeated
	// call. AlreadyExists: one of that name is of another volume.
	CreateSnapshot(ctx context.Context, r SnapshotRequest) (*Snapshot, error)

	// DeleteSnapshot removes a snapshot. One that is not there is no error.
	DeleteSnapshot(ctx context.Context, id string, secrets Secrets) error

	// ListSnapshots returns those of a volume, or all if volumeID is "", as List.
	ListSnapshots(ctx context.Context, volumeID string, limit int, after string) (snapshots []Snapshot, next string, err error)

	// ControllerPublish lets a node use the volume, as by attaching a disk. Its
	// answer is given to the node calls. NotFound: no such volume or node.
	// FailedPrecondition: it is on another node and cannot be on both.
	// ResourceExhausted: the node has as many volumes as it can.
	ControllerPublish(ctx context.Context, r ControllerPublishRequest) (publishContext map[string]string, err error)

	// ControllerUnpublish takes the volume from a node, or from all if nodeID is "". A
	// node or volume that is gone is no error: what was there is gone with it.
	ControllerUnpublish(ctx context.Context, id, nodeID string, secrets Secrets) error
}

// Node is what is done on the node of the task. Paths are absolute; their folders are
// the agent's and are there.
type Node interface {
	// NodeStage prepares the volume once for all tasks of the node, as by making
	// and mounting its file system at stagingPath.
	NodeStage(ctx context.Context, r NodeStageRequest) error

	// NodeUnstage undoes it. What is not staged is no error.
	NodeUnstage(ctx context.Context, id, stagingPath string) error

	// NodePublish shows the volume to one task at targetPath: a folder, or for
	// AttachmentBlockDevice a device file. FailedPrecondition: it is not staged.
	NodePublish(ctx context.Context, r NodePublishRequest) error

	// NodeUnpublish undoes it and removes targetPath. What is not there is no error.
	NodeUnpublish(ctx context.Context, id, targetPath string) error

	// NodeExpand lets a file system use what Expand has added. It returns the size.
	NodeExpand(ctx context.Context, r NodeExpandRequest) (capacityBytes int64, err error)

	// NodeStats says how full a published volume is, and what is wrong with it.
	NodeStats(ctx context.Context, id, targetPath string) (Stats, error)
}
