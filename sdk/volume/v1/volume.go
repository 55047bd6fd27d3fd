// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"

	"github.com/drover-project/drover/sdk/plugin"
)

// Kind is the name and version of this contract.
var Kind = plugin.Kind{Name: "volume", Version: 1}

// Volume offers the volumes of one storage system. All methods may be called
// concurrently. They return soon after their ctx ends; a repetition of the call then
// finishes or undoes what they have begun. A method whose capability the plugin does
// not list is never called and returns Unimplemented.
type Volume interface {
	Identity
	Controller
	Node
}

// Identity has the methods that every volume plugin implements.
type Identity interface {
	// Info returns the plugin's name, its capabilities and the schema of its
	// configuration. It does no work and always returns the same value.
	Info() Info

	// SetConfig passes the contents of the agent's plugin "NAME" { config { } } block:
	// a JSON object that was validated against Info().ConfigSchema, with defaults
	// filled in. It is called once before anything else and again whenever the block
	// changes. InvalidArgument: the plugin cannot work with this configuration.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports the state of the plugin and the location of this node, once
	// when it is called and then whenever something changes. The plugin closes the
	// channel when ctx ends. It must not block while its storage system is
	// unreachable, but report that.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)
}

// Controller has the methods that act on the storage system, from any node.
type Controller interface {
	// Create creates a volume, or returns the existing volume of that name if it is
	// compatible. AlreadyExists: a volume of that name is not compatible.
	// InvalidArgument: invalid parameters, access or source. ResourceExhausted: no
	// space, or none at the requested topology. NotFound: the source does not exist.
	Create(ctx context.Context, r CreateRequest) (*Description, error)

	// Delete removes a volume and its data. It is not an error if the volume does not
	// exist. FailedPrecondition: it is in use, or snapshots depend on it.
	Delete(ctx context.Context, id string, secrets Secrets) error

	// List returns at most limit volumes (0: the plugin's own limit) in the order of
	// their ids, starting after the id after. next is "" at the end.
	List(ctx context.Context, limit int, after string) (volumes []Description, next string, err error)

	// Capacity returns the available space for volumes of the requested kind, at a
	// location if one is given.
	Capacity(ctx context.Context, r CapacityRequest) (Capacity, error)

	// Expand grows a volume to at least the required size, never shrinks it. A
	// published volume can be expanded only with the capability expand_online;
	// otherwise FailedPrecondition is returned. NotFound: there is no such volume.
	Expand(ctx context.Context, r ExpandRequest) (Expansion, error)

	// CreateSnapshot creates a snapshot, or returns the existing one of that name. It
	// returns once the snapshot is cut. The snapshot may become Ready later, which a
	// repeated call reports. AlreadyExists: the existing snapshot is of another
	// volume.
	CreateSnapshot(ctx context.Context, r SnapshotRequest) (*Snapshot, error)

	// DeleteSnapshot removes a snapshot. It is not an error if the snapshot does not
	// exist.
	DeleteSnapshot(ctx context.Context, id string, secrets Secrets) error

	// ListSnapshots returns the snapshots of a volume, or all if volumeID is "". It
	// pages like List.
	ListSnapshots(ctx context.Context, volumeID string, limit int, after string) (snapshots []Snapshot, next string, err error)

	// ControllerPublish makes the volume available to a node, for example by attaching
	// a disk. Its result is passed to the node calls. NotFound: there is no such
	// volume or node. FailedPrecondition: it is on another node and cannot be on both.
	// ResourceExhausted: the node has reached its maximum number of volumes.
	ControllerPublish(ctx context.Context, r ControllerPublishRequest) (publishContext map[string]string, err error)

	// ControllerUnpublish removes the volume from a node, or from all nodes if nodeID
	// is "". It is not an error if the node or the volume no longer exists.
	ControllerUnpublish(ctx context.Context, id, nodeID string, secrets Secrets) error
}

// Node has the methods that act on the node of the task. Paths are absolute; the agent
// has created their parent folders.
type Node interface {
	// NodeStage prepares the volume once for all tasks of the node, for example by
	// formatting it and mounting it at stagingPath.
	NodeStage(ctx context.Context, r NodeStageRequest) error

	// NodeUnstage reverses NodeStage. It is not an error if the volume is not staged.
	NodeUnstage(ctx context.Context, id, stagingPath string) error

	// NodePublish makes the volume available to one task at targetPath: a directory,
	// or a device file for AttachmentBlockDevice. FailedPrecondition: it is not
	// staged.
	NodePublish(ctx context.Context, r NodePublishRequest) error

	// NodeUnpublish reverses NodePublish and removes targetPath. It is not an error if
	// the volume is not published there.
	NodeUnpublish(ctx context.Context, id, targetPath string) error

	// NodeExpand grows the file system to the size of the expanded volume. It returns
	// the new size in bytes.
	NodeExpand(ctx context.Context, r NodeExpandRequest) (capacityBytes int64, err error)

	// NodeStats returns the usage of a published volume and any problem with it.
	NodeStats(ctx context.Context, id, targetPath string) (Stats, error)
}
