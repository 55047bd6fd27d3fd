// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
)

// exampleVolume is what "volume init" writes.
const exampleVolume = `# A directory of one node that outlives allocations.
#   drover volume create volume.hcl
type      = "host"
name      = "database"
namespace = "default"

# The plugin that makes the volume. mkdir is built in: it makes a directory without a limit
# of its size. Others are executables in the node's host_volume_plugin_dir.
plugin_id = "mkdir"

# Where the volume may be. Without node_id, the node with the fewest volumes is chosen.
node_pool = "default"
# node_id = "f1d0f3e2-7a3c-4d6f-8f5b-0d6a1b8d5c21"

# constraint {
#   attribute = "${attr.kernel.name}"
#   value     = "linux"
# }

# The capacity that the plugin is asked for. mkdir limits it where the file system has project
# quotas, and ignores it elsewhere.
# capacity_min = "10GiB"
# capacity_max = "20GiB"

# How jobs may use the volume: single-node-reader-only, single-node-writer,
# single-node-single-writer (one allocation writes at a time) or single-node-multi-writer.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# Parameters of the plugin. mkdir has mode, uid and gid.
parameters {
  mode = "0700"
}
`

// exampleVolumeJSON is the specification of exampleVolume in JSON.
const exampleVolumeJSON = `{
    "type": "host",
    "name": "database",
    "namespace": "default",
    "plugin_id": "mkdir",
    "node_pool": "default",
    "capability": [
        {
            "access_mode": "single-node-writer",
            "attachment_mode": "file-system"
        }
    ],
    "parameters": {
        "mode": "0700"
    }
}
`

func volumeInit() spec {
	return spec{
		usage: "volume init [options] [<filename>]", synopsis: "Writes an example specification of a volume", max: 1, offline: true, takes: takesFiles,
		setup: func(fs *flag.FlagSet) run {
			asJSON := fs.Bool("json", false, "Writes JSON instead of HCL.")
			kind := fs.String("type", "host", "Type of the volume: host or csi.")
			return func(_ context.Context, s *session, args []string) error {
				if err := isVolumeType(*kind); err != nil {
					return err
				}
				file, content, inJSON := "volume.hcl", exampleVolume, exampleVolumeJSON
				if *kind == jobspec.VolumeCSI {
					content, inJSON = exampleCSIVolume, exampleCSIVolumeJSON
				}
				if *asJSON {
					file, content = "volume.json", inJSON
				}
				if len(args) == 1 {
					file = args[0]
				}
				if err := writeNew(file, content); err != nil {
					return err
				}
				s.printf("Example volume specification written to %s", file)
				return nil
			}
		},
	}
}

func isVolumeType(kind string) error {
	switch kind {
	case jobspec.VolumeHost, jobspec.VolumeCSI, "":
		return nil
	}
	return fmt.Errorf("-type %q is not a type of volumes: use host or csi", kind)
}

// readVolume reads a specification of a host volume, or else of one of type csi. id is that
// of -id.
func (s *session) readVolume(ctx context.Context, path, id string) (v *model.HostVolume, spec *api.CSIVolumeSpec, err error) {
	src, err := readFile(path, s.In)
	if err != nil {
		return nil, nil, err
	}
	kind, err := jobspec.VolumeType(src, path)
	switch {
	case err != nil:
		return nil, nil, err
	case kind == jobspec.VolumeCSI:
		spec, err = s.csiSpecOf(src, path, id)
	default:
		v, err = s.volumeOf(ctx, src, path, id)
	}
	return v, spec, err
}

// enterNamespace makes the namespace of a specification the session's own, or the other way
// round if the specification names none.
func (s *session) enterNamespace(namespace *string) error {
	if *namespace == "" {
		*namespace = s.client.Namespace()
	} else if s.cfg.Namespace != "" && s.cfg.Namespace != *namespace {
		return fmt.Errorf("the specification is for namespace %q, and -namespace is %q: leave one out", *namespace, s.cfg.Namespace)
	}
	s.client = s.client.WithNamespace(*namespace)
	return nil
}

// volumeOf parses the specification of a host volume. id is the prefix of the id of the
// volume that it changes, or "".
func (s *session) volumeOf(ctx context.Context, src []byte, path, id string) (*model.HostVolume, error) {
	v, err := jobspec.ParseHostVolume(src, path)
	if err != nil {
		return nil, err
	}
	if err := s.enterNamespace(&v.Namespace); err != nil {
		return nil, err
	}
	if id != "" {
		if v.ID, err = s.wholeVolumeID(ctx, id); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (s *session) wholeVolumeID(ctx context.Context, prefix string) (string, error) {
	return wholeID(ctx, "volume", prefix, func(ctx context.Context, q *client.Query) ([]candidate, error) {
		list, _, err := s.anyNamespace().HostVolumes(ctx, "", "", q)
		return candidatesOf(list, func(v *api.HostVolumeStub) candidate { return candidate{v.ID, v.Name + ", " + v.State} }), err
	})
}

func volumeCreate() spec {
	return spec{
		usage: "volume create [options] <input>", synopsis: "Has a node or a driver make the volume that a specification describes", min: 1, max: 1, takes: takesFiles,
		help: "The input is a specification in HCL or JSON, or - for standard input. For an example\nsee: drover volume init",
		setup: func(fs *flag.FlagSet) run {
			detach := fs.Bool("detach", false, "Returns when the volume is made, without waiting until jobs can use it.")
			id := fs.String("id", "", "Makes the volume with this id, or prefix of one, anew, with other capacities, parameters or capabilities.")
			override := fs.Bool("policy-override", false, "Overrides soft policies of the cluster.")
			return func(ctx context.Context, s *session, args []string) error {
				s.noPolicies(*override)
				v, spec, err := s.readVolume(ctx, args[0], *id)
				if err != nil {
					return err
				}
				if spec != nil {
					return s.createCSI(ctx, spec)
				}
				res, err := s.client.CreateHostVolume(ctx, v)
				if err != nil {
					return err
				}
				if v.ID == "" {
					s.step("Created host volume %s with ID %s", res.Volume.Name, res.Volume.ID)
				} else {
					s.step("Updated host volume %s with ID %s", res.Volume.Name, res.Volume.ID)
				}
				if *detach {
					return nil
				}
				return s.awaitVolume(ctx, res.Volume.ID)
			}
		},
	}
}

func (s *session) noPolicies(override bool) {
	if override {
		s.warn("-policy-override does nothing: there are no policies")
	}
}

// volumeWait is how long volume create waits for the node to offer what it has made.
const volumeWait = time.Minute

// awaitVolume waits until jobs can use a volume.
func (s *session) awaitVolume(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, volumeWait)
	defer cancel()
	var index uint64
	for {
		v, meta, err := s.client.HostVolume(ctx, id, &client.Query{WaitIndex: index})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("volume %s is not ready after %s: its node has made it, and does not offer it; see: drover volume status %s", id, volumeWait, id)
		case err != nil:
			return err
		case v.State == model.HostVolumeReady:
			s.step("Host volume %q is ready", s.id(id))
			return nil
		}
		index = meta.Index
	}
}

func volumeRegister() spec {
	return spec{
		usage: "volume register [options] <input>", synopsis: "Adds a directory of a node, or a volume of a storage system, as a volume", min: 1, max: 1, takes: takesFiles,
		help: "The input is a specification in HCL or JSON with node_id and host_path, or of type csi with\nexternal_id, or - for standard input. Deleting a registered host volume leaves its directory\nas it is.",
		setup: func(fs *flag.FlagSet) run {
			id := fs.String("id", "", "Changes the registered volume with this id, or prefix of one.")
			override := fs.Bool("policy-override", false, "Overrides soft policies of the cluster.")
			return func(ctx context.Context, s *session, args []string) error {
				s.noPolicies(*override)
				v, spec, err := s.readVolume(ctx, args[0], *id)
				if err != nil {
					return err
				}
				if spec != nil {
					return s.registerCSI(ctx, spec)
				}
				res, err := s.client.RegisterHostVolume(ctx, v)
				if err != nil {
					return err
				}
				s.printf("Host volume %q with ID %s registered", res.Volume.Name, res.Volume.ID)
				return nil
			}
		},
	}
}

func volumeStatus() spec {
	return spec{
		usage: "volume status [options] [<id>]", synopsis: "Lists volumes, or describes one", max: 1, output: true, takes: "host_volumes",
		setup: func(fs *flag.FlagSet) run {
			node := fs.String("node", "", "Lists only the volumes of the node with this id, or prefix of one.")
			pool := fs.String("node-pool", "", "Lists only the volumes of a node pool.")
			kind := fs.String("type", "", "Only volumes of a type: host or csi. As JSON, a list without it has host volumes.")
			short := fs.Bool("short", false, "Shows no allocations and capabilities of a volume.")
			q := filterFlags(fs, true)
			return func(ctx context.Context, s *session, args []string) error {
				if err := isVolumeType(*kind); err != nil {
					return err
				}
				if len(args) == 1 {
					return s.describeVolume(ctx, args[0], *kind, *short)
				}
				node, err := s.nodeID(ctx, *node)
				if err != nil {
					return err
				}
				if *kind == jobspec.VolumeCSI {
					list, meta, err := s.client.CSIVolumes(ctx, node, "", &q.Query)
					return s.show(list, err, func() {
						s.tableOr("No CSI volumes", csiHeader, csiRows(list))
						q.more(s, meta)
					})
				}
				var attached []*api.CSIVolumeStub
				if *kind == "" && *pool == "" && q.NextToken == "" {
					if attached, _, err = s.client.CSIVolumes(ctx, node, "", &q.Query); err != nil {
						return err
					}
				}
				list, meta, err := s.client.HostVolumes(ctx, node, *pool, &q.Query)
				return s.show(list, err, func() {
					if len(attached) > 0 {
						s.title("Container Storage Interface")
						s.table(csiHeader, csiRows(attached))
						s.title("\nDynamic Host Volumes")
					}
					var rows [][]string
					for _, v := range list {
						rows = append(rows, []string{s.id(v.ID), v.Name, v.Namespace, v.PluginID, s.id(v.NodeID), v.NodePool, v.State})
					}
					s.tableOr("No dynamic host volumes", []string{"ID", "Name", "Namespace", "Plugin ID", "Node ID", "Node Pool", "State"}, rows)
					q.more(s, meta)
				})
			}
		},
	}
}

func (s *session) describeVolume(ctx context.Context, prefix, kind string, short bool) error {
	if kind != jobspec.VolumeHost {
		v, err := s.csiVolume(ctx, prefix)
		if kind == jobspec.VolumeCSI && v == nil && err == nil {
			v, err = s.wholeCSIVolume(ctx, prefix)
		}
		if v != nil || err != nil {
			return s.show(v, err, func() { s.describeCSI(v, short) })
		}
	}
	id, err := s.wholeVolumeID(ctx, prefix)
	if err != nil {
		return err
	}
	v, _, err := s.anyNamespace().HostVolume(ctx, id, nil)
	return s.show(v, err, func() {
		capacity := "<no limit>"
		if v.CapacityBytes > 0 {
			capacity = humanize.IBytes(uint64(v.CapacityBytes))
		}
		s.pairs("ID", v.ID, "Name", v.Name, "Namespace", v.Namespace, "Plugin ID", v.PluginID, "Registered", text(v.Registered), "Node ID", v.NodeID, "Node Pool", v.NodePool,
			"Capacity", capacity, "State", v.State, "Host Path", v.HostPath, "Created", ago(v.CreateTime), "Modified", ago(v.ModifyTime))
		if short {
			return
		}
		s.title("\nCapabilities")
		var rows [][]string
		for _, c := range v.RequestedCapabilities {
			rows = append(rows, []string{c.AccessMode, c.AttachmentMode})
		}
		s.tableOr("No capabilities", []string{"Access Mode", "Attachment Mode"}, rows)
		if len(v.Constraints) > 0 {
			s.title("\nConstraints")
			for _, c := range v.Constraints {
				s.printf("%s", visible(c.String()))
			}
		}
		if len(v.Parameters) > 0 {
			s.title("\nParameters")
			s.mapPairs(v.Parameters)
		}
		s.title("\nAllocations")
		s.allocTable(v.Allocations)
	})
}

func volumeDelete() spec {
	return spec{
		usage: "volume delete [options] <vol id>", synopsis: "Deletes a volume, with its data unless it was registered", min: 1, max: 1, takes: "host_volumes",
		setup: func(fs *flag.FlagSet) run {
			force := fs.Bool("force", false, "Forgets a volume whose node is out of reach. Its data stays on the node.")
			kind := fs.String("type", "", "Type of the volume: host or csi. Without it, the volume of type csi with this id, or else a host volume.")
			secrets := secretFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				if err := isVolumeType(*kind); err != nil {
					return err
				}
				if *kind != jobspec.VolumeHost {
					v, err := s.csiVolume(ctx, args[0])
					if v == nil && err == nil && *kind == jobspec.VolumeCSI {
						v, err = s.wholeCSIVolume(ctx, args[0])
					}
					if err != nil {
						return err
					}
					if v != nil {
						return s.deleteCSI(ctx, v, secrets)
					}
				}
				if len(secrets) > 0 {
					return fmt.Errorf("-secret is for volumes of type csi; a host volume has no secrets")
				}
				id, err := s.wholeVolumeID(ctx, args[0])
				if err != nil {
					return err
				}
				v, _, err := s.anyNamespace().HostVolume(ctx, id, nil)
				if err != nil {
					return err
				}
				if err := s.client.WithNamespace(v.Namespace).DeleteHostVolume(ctx, id, *force); err != nil {
					return err
				}
				s.printf("Successfully deleted volume %q!", id)
				return nil
			}
		},
	}
}

func volumeClaimList() spec {
	return spec{
		usage: "volume claim list [options] [<claim_id>]", synopsis: "Lists which allocations are bound to which sticky volumes", max: 1, output: true,
		setup: func(fs *flag.FlagSet) run {
			job := fs.String("job", "", "Lists only the claims of a job.")
			group := fs.String("group", "", "Lists only the claims of a group.")
			volume := fs.String("volume-name", "", "Lists only the claims on volumes with this name.")
			q := filterFlags(fs, true)
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 1 {
					q.Prefix = args[0]
				}
				list, meta, err := s.client.VolumeClaims(ctx, map[string]string{"job_id": *job, "task_group": *group, "volume_name": *volume}, &q.Query)
				return s.show(list, err, func() {
					var rows [][]string
					for _, c := range list {
						rows = append(rows, []string{s.id(c.ID), c.Namespace, c.JobID, c.AllocName, s.id(c.AllocID), c.VolumeName, s.id(c.VolumeID)})
					}
					s.tableOr("No volume claims", []string{"ID", "Namespace", "Job ID", "Alloc Name", "Alloc ID", "Volume Name", "Volume ID"}, rows)
					q.more(s, meta)
				})
			}
		},
	}
}

func volumeClaimDelete() spec {
	return spec{
		usage: "volume claim delete [options] <id>", synopsis: "Frees an allocation's name from its sticky volume", min: 1, max: 1,
		help: "The next allocation of the name may get another volume. The volume and its data stay.",
		setup: func(fs *flag.FlagSet) run {
			yes := fs.Bool("y", false, "Answers yes to the prompt.")
			fs.BoolVar(yes, "yes", false, "The same as -y.")
			return func(ctx context.Context, s *session, args []string) error {
				list, _, err := s.anyNamespace().VolumeClaims(ctx, nil, &client.Query{Prefix: args[0]})
				if err != nil {
					return err
				}
				var found []candidate
				for _, c := range list {
					found = append(found, candidate{c.ID, c.AllocName + " on volume " + c.VolumeName})
				}
				switch len(found) {
				case 0:
					return fmt.Errorf("no claim with prefix or id %q found; list them with: drover volume claim list", args[0])
				case 1:
				default:
					return ambiguous("claim", args[0], found)
				}
				if ok, err := s.confirm(*yes, "Delete the claim of %s? Its next allocation may get another volume.", strings.ReplaceAll(found[0].about, "%", "")); !ok {
					return err
				}
				if err := s.client.DeleteVolumeClaim(ctx, found[0].id); err != nil {
					return err
				}
				s.printf("Successfully deleted claim %q!", found[0].id)
				return nil
			}
		},
	}
}
