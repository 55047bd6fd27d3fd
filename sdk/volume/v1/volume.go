// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
)

// Volume offers the volumes of one storage system. All methods may be called concurrently.
// The host gives each call a deadline.
type Volume interface {
	// Info returns the plugin's name and the schema of its configuration. It does no
	// work and always returns the same value.
	Info() Info

	// SetConfig passes the contents of the agent's plugin "NAME" { config { } } block:
	// a JSON object that was validated against Info().ConfigSchema, with defaults
	// filled in. It is called once before the first Fingerprint and again whenever the
	// block changes. Volumes stay as they are. InvalidArgument: the plugin cannot work
	// with this configuration.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports what the plugin can do here, once when it is called and again
	// whenever that changes. It does not wait for a storage system that does not answer,
	// but reports it. The plugin closes the channel when ctx ends.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)

	// Publish makes the volume available at a path: a directory, or a device file for
	// AttachmentBlockDevice. The parent directory exists. NotFound: there is no such
	// volume. FailedPrecondition: it is not staged, or in use in a way that excludes this
	// one.
	Publish(ctx context.Context, r PublishRequest) error

	// Unpublish reverses Publish and removes the path. It returns nil only when nothing is
	// mounted there, also if the volume does not exist any more.
	Unpublish(ctx context.Context, id, targetPath string) error

	// Published returns everything that Stage and Publish have left on this node, also in
	// part, in the order of ids. It asks no storage system.
	Published(ctx context.Context) ([]Publication, error)
}

// Creator makes and removes volumes (CanCreate).
type Creator interface {
	// Create makes a volume, or returns the one of that name if it fits. AlreadyExists: a
	// volume of that name does not fit. InvalidArgument: the parameters, access or size
	// cannot be had. NotFound: the source does not exist. ResourceExhausted: there is no
	// space, or none where it is needed.
	Create(ctx context.Context, r CreateRequest) (*Description, error)

	// Delete removes a volume with its data. FailedPrecondition: it is in use, or
	// snapshots depend on it.
	Delete(ctx context.Context, id string, secrets Secrets) error
}

// Validator says whether a volume can be used in a certain way (CanValidate). All plugins
// with a controller's part have it.
type Validator interface {
	// Validate returns nil if the volume exists and can be used in all these ways.
	// NotFound: there is no such volume. InvalidArgument: it cannot be used so; the text
	// says what does not fit.
	Validate(ctx context.Context, r ValidateRequest) error
}

// Lister lists volumes (CanList).
type Lister interface {
	// List returns one page of volumes. Aborted with ReasonStartAgain: the place is not
	// known any more.
	List(ctx context.Context, r PageRequest) (*VolumePage, error)
}

// Getter describes single volumes (CanGet).
type Getter interface {
	// Get returns a volume as it is now. NotFound: there is no such volume.
	Get(ctx context.Context, id string) (*Description, error)
}

// Sizer tells the free space of the storage system (CanCapacity).
type Sizer interface {
	// Capacity returns the space for volumes of a kind.
	Capacity(ctx context.Context, r CapacityRequest) (*Capacity, error)
}

// Expander grows volumes (CanExpand).
type Expander interface {
	// Expand grows a volume to at least the required size; it never shrinks one.
	// NotFound: there is no such volume. FailedPrecondition with ReasonOffline: a node
	// has it. InvalidArgument: it cannot have that size.
	Expand(ctx context.Context, r ExpandRequest) (*Expansion, error)
}

// Modifier changes parameters of volumes (CanModify).
type Modifier interface {
	// Modify sets the parameters that are given and leaves the others. NotFound: there is
	// no such volume. InvalidArgument: they cannot be had.
	Modify(ctx context.Context, r ModifyRequest) error
}

// Snapshotter makes snapshots (CanSnapshot), which Create takes as a source.
type Snapshotter interface {
	// CreateSnapshot makes a snapshot, or returns the one of that name. It returns once
	// the snapshot is cut; it may become Ready later, which a repeated call says.
	// AlreadyExists: the snapshot of that name is of another volume. NotFound: there is
	// no such volume.
	CreateSnapshot(ctx context.Context, r SnapshotRequest) (*Snapshot, error)

	// DeleteSnapshot removes a snapshot. FailedPrecondition: it is in use.
	DeleteSnapshot(ctx context.Context, id string, secrets Secrets) error
}

// SnapshotLister lists snapshots (CanListSnapshots).
type SnapshotLister interface {
	// ListSnapshots returns one page of snapshots.
	ListSnapshots(ctx context.Context, r SnapshotPageRequest) (*SnapshotPage, error)
}

// Attacher brings volumes to nodes, for example as disks (CanAttach).
type Attacher interface {
	// Attach brings a volume to a node. Its result is passed to Stage and Publish.
	// NotFound: there is no such volume or node. FailedPrecondition with
	// ReasonElsewhere: another node has it. ResourceExhausted: the node has its maximum.
	Attach(ctx context.Context, r AttachRequest) (publishContext map[string]string, err error)

	// Detach takes a volume from a node, or from all nodes if NodeID is "". It is nil
	// also if the volume or the node does not exist any more.
	Detach(ctx context.Context, r DetachRequest) error
}

// Stager prepares a volume once for all tasks of a node (CanStage), for example by a file
// system and a mount.
type Stager interface {
	// Stage prepares the volume at a directory, which is made if it is absent. NotFound:
	// there is no such volume. FailedPrecondition: it is not attached, or cannot be staged
	// a second time.
	Stage(ctx context.Context, r StageRequest) error

	// Unstage reverses Stage. It returns nil only when nothing is mounted there.
	// FailedPrecondition with ReasonInUse: it is still published.
	Unstage(ctx context.Context, id, stagingPath string) error
}

// NodeExpander grows what a node has of an expanded volume (CanNodeExpand).
type NodeExpander interface {
	// NodeExpand grows the file system, or the device, to the size of the volume and
	// returns it in bytes; 0 means that it is not known.
	NodeExpand(ctx context.Context, r NodeExpandRequest) (capacityBytes int64, err error)
}

// Meter measures published volumes (CanStats).
type Meter interface {
	// Stats returns the usage of a volume at a path, and its condition if the plugin has
	// CanNodeCondition. NotFound: the volume is not at that path.
	Stats(ctx context.Context, r StatsRequest) (*Stats, error)
}
