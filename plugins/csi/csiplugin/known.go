// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/plugins/internal/fingerprint"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// known is what is known of the driver.
type known struct {
	name, version string
	can           []volume.Capability // sorted
	node          *volume.Node
	// problem says why the driver cannot be used now; the rest is then what was last
	// known.
	problem string
}

func (k *known) has(c volume.Capability) bool { return slices.Contains(k.can, c) }

// How often the driver is asked what it is and whether it is well, and how long each
// answer may take.
const (
	askEvery = 10 * time.Second
	askSoon  = time.Second // while there is a problem
	askLimit = 5 * time.Second
)

// Fingerprint implements volume.Volume.
func (p *Plugin) Fingerprint(ctx context.Context) (<-chan volume.Fingerprint, error) {
	return fingerprint.Stream(ctx, func(ctx context.Context) (volume.Fingerprint, fingerprint.Again) {
		set, conn, changed := p.watched()
		f, again := p.look(ctx, set, conn), fingerprint.Again{After: askEvery, Changed: changed}
		if f.Problem != "" {
			again.After = askSoon
		}
		return f, again
	}), nil
}

func (p *Plugin) watched() (settings, *conn, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set, p.conn, p.changed
}

// look asks the driver and returns what is known of it then.
func (p *Plugin) look(ctx context.Context, set settings, c *conn) volume.Fingerprint {
	var now known
	err := errors.New("the plugin has no endpoint yet")
	if c != nil {
		c.begin()
		now, err = ask(ctx, &set, c)
		c.end()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.conn != c: // it was asked at the endpoint of before
	case err != nil:
		p.known.problem = err.Error()
	default:
		p.known = now
	}
	k := p.known
	return volume.Fingerprint{Provider: k.name, ProviderVersion: k.version, Capabilities: slices.Clone(k.can), Node: k.node, Problem: k.problem}
}

// ask asks a driver what it is and what it can do.
func ask(ctx context.Context, set *settings, c *conn) (known, error) {
	k := known{can: []volume.Capability{}}
	ready, err := asked(ctx, "whether it is ready", c.identity.Probe, &csi.ProbeRequest{})
	if err != nil {
		return k, err
	}
	if r := ready.GetReady(); r != nil && !r.GetValue() {
		return k, errors.New("the driver says that it is not ready yet")
	}
	info, err := asked(ctx, "what it is", c.identity.GetPluginInfo, &csi.GetPluginInfoRequest{})
	if err != nil {
		return k, err
	}
	if k.name, k.version = line(info.GetName(), 128), line(info.GetVendorVersion(), 128); k.name == "" {
		return k, errors.New("the driver does not say its name; it is defective")
	}
	services, err := asked(ctx, "which services it has", c.identity.GetPluginCapabilities, &csi.GetPluginCapabilitiesRequest{})
	if err != nil {
		return k, err
	}
	controller := k.services(services.GetCapabilities())
	if controller && set.Controller {
		if err := k.askController(ctx, c); err != nil {
			return k, err
		}
	}
	if set.Node {
		if err := k.askNode(ctx, c); err != nil {
			return k, err
		}
	}
	slices.Sort(k.can)
	k.can = slices.Compact(k.can)
	return k, nil
}

// asked makes one call of ask.
func asked[Req, Resp any](ctx context.Context, what string, do func(context.Context, Req, ...callOption) (Resp, error), req Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	resp, err := do(ctx, req)
	if err != nil {
		return resp, &unasked{what: what, status: status.Convert(err)}
	}
	return resp, nil
}

// unasked is why a driver could not be asked.
type unasked struct {
	what   string
	status *status.Status
}

func (u *unasked) Error() string {
	return fmt.Sprintf("the driver cannot be asked %s: %s (%s)", u.what, words(u.status.Message(), nil), u.status.Code())
}

func absent(err error) bool {
	var u *unasked
	return errors.As(err, &u) && u.status.Code() == codes.Unimplemented
}

func (k *known) services(all []*csi.PluginCapability) (controller bool) {
	for _, c := range all {
		switch c.GetService().GetType() {
		case csi.PluginCapability_Service_CONTROLLER_SERVICE:
			controller = true
			k.can = append(k.can, volume.HasController)
		case csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS:
			k.can = append(k.can, volume.HasTopology)
		}
		if c.GetVolumeExpansion().GetType() == csi.PluginCapability_VolumeExpansion_ONLINE {
			k.can = append(k.can, volume.CanExpandOnline)
		}
	}
	return controller
}

// controllerCan and nodeCan are the capabilities of CSI in the words of the contract.
var (
	controllerCan = map[csi.ControllerServiceCapability_RPC_Type]volume.Capability{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:         volume.CanCreate,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:     volume.CanAttach,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES:                 volume.CanList,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY:                 volume.CanCapacity,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:       volume.CanSnapshot,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS:               volume.CanListSnapshots,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME:                 volume.CanClone,
		csi.ControllerServiceCapability_RPC_PUBLISH_READONLY:             volume.CanAttachReadOnly,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME:                volume.CanExpand,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES: volume.CanPublishedNodes,
		csi.ControllerServiceCapability_RPC_VOLUME_CONDITION:             volume.CanCondition,
		csi.ControllerServiceCapability_RPC_GET_VOLUME:                   volume.CanGet,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:     volume.CanSingleNodeMultiWriter,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME:                volume.CanModify,
	}
	nodeCan = map[csi.NodeServiceCapability_RPC_Type]volume.Capability{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:     volume.CanStage,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS:         volume.CanStats,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME:            volume.CanNodeExpand,
		csi.NodeServiceCapability_RPC_VOLUME_CONDITION:         volume.CanNodeCondition,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: volume.CanSingleNodeMultiWriter,
		csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:       volume.CanMountGroup,
	}
)

func (k *known) askController(ctx context.Context, c *conn) error {
	resp, err := asked(ctx, "what its controller can do", c.controller.ControllerGetCapabilities, &csi.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return err
	}
	k.can = append(k.can, volume.CanValidate) // every controller has it
	for _, one := range resp.GetCapabilities() {
		if can, ok := controllerCan[one.GetRpc().GetType()]; ok {
			k.can = append(k.can, can)
		}
	}
	return nil
}

// maxNodeID is the largest number of bytes of a node's id, as CSI limits it.
const maxNodeID = 256

func (k *known) askNode(ctx context.Context, c *conn) error {
	info, err := asked(ctx, "what it calls this node", c.node.NodeGetInfo, &csi.NodeGetInfoRequest{})
	if absent(err) {
		return nil // it has no node service
	}
	if err != nil {
		return err
	}
	if id := info.GetNodeId(); id == "" || len(id) > maxNodeID || line(id, maxNodeID) != id {
		return fmt.Errorf("the driver calls this node %.40q, which is no id; it is defective", id)
	}
	resp, err := asked(ctx, "what it can do on this node", c.node.NodeGetCapabilities, &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		return err
	}
	for _, one := range resp.GetCapabilities() {
		if can, ok := nodeCan[one.GetRpc().GetType()]; ok {
			k.can = append(k.can, can)
		}
	}
	k.node = &volume.Node{ID: info.GetNodeId(), MaxVolumes: max(0, info.GetMaxVolumesPerNode())}
	if t := info.GetAccessibleTopology(); t != nil {
		if k.node.Topology, err = topologyOf(t); err != nil {
			return err
		}
	}
	return nil
}
