// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// exampleCSIVolume is what "volume init -type csi" writes.
const exampleCSIVolume = `# A volume of a storage system that a CSI driver reaches.
#   drover volume create volume.hcl      the driver makes the volume
#   drover volume register volume.hcl    the storage system has it: set external_id
type      = "csi"
id        = "database"
name      = "database"
namespace = "default"

# The id of the driver: the id of the csi_plugin block of the job that runs it. See
# drover plugin status -type csi.
plugin_id = "csi-local"

# external_id = "vol-23452345"

# The capacity that the driver is asked for. A greater capacity_min grows the volume when
# the specification is created again.
capacity_min = "10GiB"
capacity_max = "20GiB"

# What the volume begins with: a snapshot or a volume of the storage system.
# snapshot_id = "snap-12345"
# clone_id    = "vol-12345"

# How jobs may use the volume: single-node-reader-only, single-node-writer,
# single-node-single-writer, single-node-multi-writer, multi-node-reader-only,
# multi-node-single-writer or multi-node-multi-writer, with file-system or block-device.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# mount_options {
#   fs_type     = "ext4"
#   mount_flags = ["noatime"]
# }

# Where the volume is needed.
# topology_request {
#   required {
#     topology {
#       segments { zone = "a" }
#     }
#   }
# }

# Parameters and secrets of the driver. Secrets are stored encrypted and never shown.
# parameters {
#   kind = "loop"
# }
# secrets {
#   key = "xxxx"
# }
`

// exampleCSIVolumeJSON is the same in JSON.
const exampleCSIVolumeJSON = `{
    "type": "csi",
    "id": "database",
    "name": "database",
    "namespace": "default",
    "plugin_id": "csi-local",
    "capacity_min": "10GiB",
    "capacity_max": "20GiB",
    "capability": [
        {
            "access_mode": "single-node-writer",
            "attachment_mode": "file-system"
        }
    ]
}
`

// csiSpecOf reads a specification of a volume of type csi.
func (s *session) csiSpecOf(src []byte, path, id string) (*api.CSIVolumeSpec, error) {
	v, secrets, err := jobspec.ParseCSIVolume(src, path)
	if err != nil {
		return nil, err
	}
	if id != "" && v.ID != "" && id != v.ID {
		return nil, fmt.Errorf("the specification has id %q, and -id is %q: leave one out", v.ID, id)
	}
	if v.ID == "" {
		v.ID = id
	}
	if v.ID == "" {
		return nil, fmt.Errorf("%s: a volume of type csi needs an id, by which jobs ask for it", path)
	}
	if err := v.CheckForm(); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.Join(model.Problems(err), "; "))
	}
	if err := s.enterNamespace(&v.Namespace); err != nil {
		return nil, err
	}
	return &api.CSIVolumeSpec{CSIVolume: *v, Secrets: secrets}, nil
}

func (s *session) createCSI(ctx context.Context, spec *api.CSIVolumeSpec) error {
	res, err := s.client.CreateCSIVolume(ctx, spec)
	if err != nil {
		return err
	}
	for _, v := range res.Volumes {
		s.printf("Created external volume %s with ID %s", v.ExternalID, v.ID)
	}
	return nil
}

func (s *session) registerCSI(ctx context.Context, spec *api.CSIVolumeSpec) error {
	if _, err := s.client.RegisterCSIVolume(ctx, spec); err != nil {
		return err
	}
	s.printf("CSI volume %q registered", spec.ID)
	return nil
}

// csiVolume returns the volume of type csi with an id, nil if there is none.
func (s *session) csiVolume(ctx context.Context, id string) (*api.CSIVolume, error) {
	v, _, err := s.client.CSIVolume(ctx, id, nil)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	return v, err
}

// wholeCSIVolume returns the volume of type csi whose id, or prefix of it, is given.
func (s *session) wholeCSIVolume(ctx context.Context, id string) (*api.CSIVolume, error) {
	if v, err := s.csiVolume(ctx, id); v != nil || err != nil {
		return v, err
	}
	list, _, err := s.client.CSIVolumes(ctx, "", "", &client.Query{Prefix: id})
	if err != nil {
		return nil, err
	}
	var found []candidate
	for _, v := range list {
		found = append(found, candidate{v.ID, v.Namespace})
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no volume with prefix or id %q found; list them with: drover volume status -type csi", id)
	case 1:
	default:
		return nil, ambiguous("volume", id, found)
	}
	v, _, err := s.client.WithNamespace(list[0].Namespace).CSIVolume(ctx, list[0].ID, nil)
	return v, err
}

func csiRows(list []*api.CSIVolumeStub) (rows [][]string) {
	for _, v := range list {
		mode := v.AccessMode
		if mode == "" {
			mode = "<none>"
		}
		rows = append(rows, []string{v.ID, v.Name, v.Namespace, v.PluginID, text(v.Schedulable), mode, fmt.Sprintf("%d/%d", v.CurrentReaders, v.CurrentWriters)})
	}
	return rows
}

var csiHeader = []string{"ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Access Mode", "Readers/Writers"}

func (s *session) describeCSI(v *api.CSIVolume, short bool) {
	capacity := "<unknown>"
	if v.Capacity > 0 {
		capacity = humanize.IBytes(uint64(v.Capacity))
	}
	s.pairs("ID", v.ID, "Name", v.Name, "Namespace", v.Namespace, "External ID", v.ExternalID, "Plugin ID", v.PluginID, "Provider", v.Provider, "Version", v.ProviderVersion,
		"Capacity", capacity, "State", v.State, "Schedulable", text(v.Schedulable),
		"Controllers Healthy", strconv.Itoa(v.ControllersHealthy), "Controllers Expected", strconv.Itoa(v.ControllersExpected),
		"Nodes Healthy", strconv.Itoa(v.NodesHealthy), "Nodes Expected", strconv.Itoa(v.NodesExpected),
		"Access Mode", v.AccessMode, "Attachment Mode", v.AttachmentMode, "Mount Options", mountOptions(v.MountOptions))
	if short {
		return
	}
	s.title("\nCapabilities")
	var rows [][]string
	for _, c := range v.RequestedCapabilities {
		rows = append(rows, []string{c.AccessMode, c.AttachmentMode})
	}
	s.tableOr("No capabilities", []string{"Access Mode", "Attachment Mode"}, rows)
	if text := topologies(v.Topologies); len(text) > 0 {
		s.title("\nTopologies")
		s.table([]string{"Topology", "Segments"}, text)
	}
	s.describeAttachments(v.Attachments)
	s.title("\nAllocations")
	s.allocTable(v.Allocations)
	s.describeHolders(v.Allocations)
}

// describeHolders prints the nodes' descriptions of allocs with the volume that do not simply
// run, such as why an alloc whose tasks have ended still has the volume.
func (s *session) describeHolders(all []*model.AllocListStub) {
	for _, a := range all {
		if a.ClientDescription != "" && a.ClientDescription != usual {
			s.printf("\nAllocation %s on node %s: %s", s.id(a.ID), s.id(a.NodeID), visible(a.ClientDescription))
		}
	}
}

// usual is the description of an alloc that runs without problems.
const usual = "Tasks are running"

// describeAttachments prints which nodes have a volume, since when, and what is wrong.
func (s *session) describeAttachments(all map[string]*model.CSIAttachment) {
	if len(all) == 0 {
		return
	}
	s.title("\nAttachments")
	var rows [][]string
	for _, node := range slices.Sorted(maps.Keys(all)) {
		at := all[node]
		next := ""
		if at.NextTry > 0 {
			next = time.Unix(0, at.NextTry).UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{s.id(node), at.ExternalNodeID, at.State, ago(at.Since), strconv.Itoa(at.Failures), next})
	}
	s.table([]string{"Node ID", "External Node ID", "State", "Since", "Failures", "Next Try"}, rows)
	for _, node := range slices.Sorted(maps.Keys(all)) {
		if at := all[node]; at.LastError != "" {
			s.printf("\nNode %s: %s", s.id(node), visible(at.LastError))
		}
	}
}

func mountOptions(m *model.CSIMountOptions) string {
	if m == nil {
		return ""
	}
	var parts []string
	if m.FSType != "" {
		parts = append(parts, "fs_type: "+m.FSType)
	}
	if len(m.MountFlags) > 0 {
		parts = append(parts, "flags: "+strings.Join(m.MountFlags, ", "))
	}
	return strings.Join(parts, " ")
}

func topologies(list []*model.CSITopology) (rows [][]string) {
	for i, t := range list {
		if t == nil {
			continue
		}
		var segments []string
		for _, k := range slices.Sorted(maps.Keys(t.Segments)) {
			segments = append(segments, k+"="+t.Segments[k])
		}
		rows = append(rows, []string{strconv.Itoa(i), strings.Join(segments, " ")})
	}
	return rows
}

// secretFlag declares the flag -secret.
func secretFlag(fs *flag.FlagSet) model.VolumeSecrets {
	secrets := keyValues{}
	fs.Var(secrets, "secret", "KEY=VALUE of a secret for the driver of a csi volume, instead of those of the volume. May be given several times.")
	return model.VolumeSecrets(secrets)
}

func (s *session) deleteCSI(ctx context.Context, v *api.CSIVolume, secrets model.VolumeSecrets) error {
	if err := s.client.WithNamespace(v.Namespace).WithVolumeSecrets(secrets).DeleteCSIVolume(ctx, v.ID); err != nil {
		return err
	}
	s.printf("Successfully deleted volume %q!", v.ID)
	return nil
}

func volumeDeregister() spec {
	return spec{
		usage: "volume deregister [options] <id>", synopsis: "Forgets a volume of type csi; its data stays in the storage system", min: 1, max: 1, takes: "volumes",
		setup: func(fs *flag.FlagSet) run {
			force := fs.Bool("force", false, "Forgets a volume that is in use. What nodes have of it is not ended.")
			yes := fs.Bool("yes", false, "Answers yes to the prompt of -force.")
			return func(ctx context.Context, s *session, args []string) error {
				v, err := s.wholeCSIVolume(ctx, args[0])
				if err != nil {
					return err
				}
				if *force {
					if ok, err := s.confirm(*yes, "Forget volume %s even if it is in use? Nothing detaches it then.", strings.ReplaceAll(v.ID, "%", "")); !ok {
						return err
					}
				}
				if err := s.client.WithNamespace(v.Namespace).DeregisterCSIVolume(ctx, v.ID, *force); err != nil {
					return err
				}
				s.printf("Successfully deregistered volume %q!", v.ID)
				return nil
			}
		},
	}
}

func volumeDetach() spec {
	return spec{
		usage: "volume detach [options] <vol id> <node id>", synopsis: "Tries at once to detach a volume of type csi that no allocation of the node holds", min: 2, max: 2, takes: "volumes",
		help: "Servers detach volumes by themselves, and try again what fails: see drover volume status.\nThis command makes them try now.",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, args []string) error {
				v, err := s.wholeCSIVolume(ctx, args[0])
				if err != nil {
					return err
				}
				node := args[1]
				if v.Attachments[node] == nil { // the node may be gone, so ids of attachments count
					var found []candidate
					for id := range v.Attachments {
						if strings.HasPrefix(id, node) {
							found = append(found, candidate{id, "attached"})
						}
					}
					switch len(found) {
					case 0:
						return fmt.Errorf("volume %q is not attached to node %q; see: drover volume status -type csi %s", v.ID, node, v.ID)
					case 1:
						node = found[0].id
					default:
						return ambiguous("node", node, found)
					}
				}
				if err := s.client.WithNamespace(v.Namespace).DetachCSIVolume(ctx, v.ID, node); err != nil {
					return err
				}
				s.printf("Volume %q is detached from node %q", v.ID, s.id(node))
				return nil
			}
		},
	}
}

func (s *session) snapshotRows(list []*api.CSISnapshot) {
	var rows [][]string
	for _, n := range list {
		rows = append(rows, []string{n.ID, n.ExternalSourceVolumeID, humanize.IBytes(uint64(max(n.SizeBytes, 0))), ago(n.CreateTime * int64(time.Second)), text(n.IsReady)})
	}
	s.tableOr("No snapshots", []string{"Snapshot ID", "Volume ID", "Size", "Create Time", "Ready?"}, rows)
}

func volumeSnapshotCreate() spec {
	return spec{
		usage: "volume snapshot create [options] <volume id> [<snapshot_name>]", synopsis: "Has a driver make a snapshot of a volume of type csi", min: 1, max: 2, takes: "volumes", output: true,
		help: "A driver makes one snapshot of a name, also if it is asked again. Without a name, the snapshot\ngets that of its volume and the time.",
		setup: func(fs *flag.FlagSet) run {
			parameters := keyValues{}
			fs.Var(parameters, "parameter", "KEY=VALUE of a parameter for the driver. May be given several times.")
			secrets := secretFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				v, err := s.wholeCSIVolume(ctx, args[0])
				if err != nil {
					return err
				}
				want := &api.CSISnapshot{SourceVolumeID: v.ID, Parameters: parameters, Secrets: secrets}
				if len(args) == 2 {
					want.Name = args[1]
				}
				made, err := s.client.WithNamespace(v.Namespace).CreateCSISnapshot(ctx, want)
				if err != nil {
					return err
				}
				return s.show(made.Snapshots, nil, func() { s.snapshotRows(made.Snapshots) })
			}
		},
	}
}

func volumeSnapshotDelete() spec {
	return spec{
		usage: "volume snapshot delete [options] <plugin id> <snapshot id>", synopsis: "Has a driver remove a snapshot", min: 2, max: 2,
		setup: func(fs *flag.FlagSet) run {
			secrets := secretFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				if err := s.client.WithVolumeSecrets(secrets).DeleteCSISnapshot(ctx, args[0], args[1]); err != nil {
					return err
				}
				s.printf("Snapshot %q is deleted", args[1])
				return nil
			}
		},
	}
}

func volumeSnapshotList() spec {
	return spec{
		usage: "volume snapshot list [options]", synopsis: "Lists the snapshots of a driver", output: true,
		setup: func(fs *flag.FlagSet) run {
			plugin := fs.String("plugin", "", "Id of the driver; not needed if there is only one.")
			perPage := fs.Int("per-page", 0, "Number of results per page; 0 leaves it to the driver.")
			token := fs.String("page-token", "", "Token printed at the end of the previous page; shows the page after it.")
			secrets := secretFlag(fs)
			return func(ctx context.Context, s *session, _ []string) error {
				id, err := s.onlyCSIPlugin(ctx, *plugin)
				if err != nil {
					return err
				}
				page, err := s.client.WithVolumeSecrets(secrets).CSISnapshots(ctx, id, &client.Query{PerPage: *perPage, NextToken: *token})
				return s.show(page, err, func() {
					s.snapshotRows(page.Snapshots)
					if page.NextToken != "" {
						s.printf("\nMore: -page-token %s", page.NextToken)
					}
				})
			}
		},
	}
}

// onlyCSIPlugin returns the id of the driver whose id, or prefix of it, is given, or of the
// only one.
func (s *session) onlyCSIPlugin(ctx context.Context, id string) (string, error) {
	list, err := s.client.CSIPlugins(ctx, &client.Query{Prefix: id})
	if err != nil {
		return "", err
	}
	var found []candidate
	for _, p := range list {
		if p.ID == id {
			return id, nil
		}
		found = append(found, candidate{p.ID, p.Provider})
	}
	switch {
	case len(found) == 0 && id == "":
		return "", errors.New("the cluster has no CSI driver; drivers are jobs with a csi_plugin block")
	case len(found) == 0:
		return "", fmt.Errorf("no CSI driver with prefix or id %q found; list them with: drover plugin status -type csi", id)
	case len(found) > 1 && id == "":
		return "", fmt.Errorf("the cluster has %d CSI drivers: name one with -plugin", len(found))
	case len(found) > 1:
		return "", ambiguous("driver", id, found)
	}
	return found[0].id, nil
}
