// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/drover-project/drover/plugins/internal/fingerprint"
	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// Bounds of what is looked at.
const (
	lookEvery   = 15 * time.Second // at the directories, and at the status of networks
	askLimit    = 5 * time.Second  // for one question to one program
	maxConfigs  = 256              // configurations
	maxConfig   = 1 << 20          // bytes of one
	maxPrograms = 128              // programs whose version is asked
	prefix      = "cni/"           // of the names of networks
)

// programs returns the directories of the programs.
func (s settings) programs() []string { return filepath.SplitList(s.Path) }

// configs returns the files of configurations, in order: the first of a name counts.
func (s settings) configs() ([]string, error) {
	files, err := libcni.ConfFiles(s.ConfigDir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, errdefs.FailedPreconditionf("read cni_config_dir: %w", err)
	}
	slices.Sort(files)
	if len(files) > maxConfigs {
		return nil, errdefs.FailedPreconditionf("cni_config_dir %s has %d configurations; at most %d are read", s.ConfigDir, len(files), maxConfigs)
	}
	return files, nil
}

// read reads a configuration.
func read(file string) (*libcni.NetworkConfigList, error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxConfig {
		err = errdefs.InvalidArgumentf("it has more than %d bytes", maxConfig)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	body, err := os.ReadFile(file)
	if err == nil && filepath.Ext(file) != ".conflist" {
		body, err = listOf(body)
	}
	var list *libcni.NetworkConfigList
	if err == nil {
		list, err = libcni.NetworkConfFromBytes(body)
	}
	if err != nil {
		return nil, errdefs.FailedPreconditionf("read %s: %w", file, err)
	}
	return list, nil
}

// listOf makes a list of the configuration of one program, a form of before version 1.0.
// A list in a file of another name stays one.
func listOf(body []byte) ([]byte, error) {
	var one map[string]json.RawMessage
	if err := json.Unmarshal(body, &one); err != nil || one["plugins"] != nil {
		return body, err
	}
	return json.Marshal(map[string]any{"name": one["name"], "cniVersion": one["cniVersion"], "plugins": []any{one}})
}

// list returns the configuration of a network.
func (n *Network) list(name string) (*libcni.NetworkConfigList, error) {
	set, _ := n.current()
	files, err := set.configs()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if l, err := read(file); err == nil && prefix+l.Name == name {
			return l, nil
		}
	}
	return nil, errdefs.NotFoundf("no configuration in %s has the name of network %q", set.ConfigDir, name)
}

// Fingerprint implements network.Network.
func (n *Network) Fingerprint(ctx context.Context) (<-chan network.Fingerprint, error) {
	return fingerprint.Stream(ctx, func(ctx context.Context) (network.Fingerprint, fingerprint.Again) {
		_, changed := n.current()
		return n.look(ctx), fingerprint.Again{After: lookEvery, Changed: changed}
	}), nil
}

// look reports what the machine offers now.
func (n *Network) look(ctx context.Context) network.Fingerprint {
	if err := netspace.Probe(); err != nil {
		return network.Fingerprint{Problem: err.Error()}
	}
	set, _ := n.current()
	f := network.Fingerprint{Attributes: n.programVersions(ctx, set)}
	files, err := set.configs()
	if err != nil {
		f.Problem = err.Error()
		return f
	}
	var problems []string
	var given []pool
	for _, file := range files {
		list, err := read(file)
		if err == nil && slices.Contains(f.Networks, prefix+list.Name) {
			err = errdefs.FailedPreconditionf("%s: a file before it has the name %q too", file, list.Name)
		}
		if err == nil {
			err = n.ready(ctx, list)
		}
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		f.Networks = append(f.Networks, prefix+list.Name)
		if err := n.collect(ctx, set, list); err != nil { // the network works nevertheless
			problems = append(problems, err.Error())
		}
		own := pools(list)
		if why := overlap(own, given); why != "" {
			problems = append(problems, why)
		}
		given = append(given, own...)
	}
	if len(files) == 0 {
		problems = append(problems, fmt.Sprintf("there is no CNI configuration in %s", set.ConfigDir))
	}
	slices.Sort(f.Networks)
	f.Problem = strings.Join(problems, "; ")
	return f
}

// ready says why a network cannot be made now; nil if it can.
func (n *Network) ready(ctx context.Context, list *libcni.NetworkConfigList) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cni := n.cni()
	if _, err := cni.ValidateNetworkList(ctx, list); err != nil {
		return fmt.Errorf("network %s%s: %w", prefix, list.Name, err)
	}
	if ok, err := version.GreaterThanOrEqualTo(list.CNIVersion, "1.1.0"); err != nil || !ok {
		return nil // versions before have neither STATUS nor GC
	}
	if err := cni.GetStatusNetworkList(ctx, list); err != nil {
		return fmt.Errorf("network %s%s is not ready: %w", prefix, list.Name, err)
	}
	return nil
}

// collect makes the programs of a network remove what belongs to no alloc, if the operator wants
// it and no network is just made or removed; otherwise it is for the next time.
func (n *Network) collect(ctx context.Context, set settings, list *libcni.NetworkConfigList) error {
	if ok, err := version.GreaterThanOrEqualTo(list.CNIVersion, "1.1.0"); err != nil || !ok || !set.GC || !n.changing.TryLock() {
		return nil
	}
	defer n.changing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	all, err := n.store.All()
	if err != nil {
		return err
	}
	valid := []types.GCAttachment{}
	for id := range all {
		valid = append(valid, types.GCAttachment{ContainerID: id, IfName: insideName})
	}
	slices.SortFunc(valid, func(a, b types.GCAttachment) int { return cmp.Compare(a.ContainerID, b.ContainerID) })
	if err := n.cni().GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
		return fmt.Errorf("network %s%s: what belongs to no alloc is not removed: %w", prefix, list.Name, err)
	}
	return nil
}

// programVersion is the version that a program had when its file was this one.
type programVersion struct {
	size    int64
	changed time.Time
	version string
}

// versionText finds the version in what a program says of itself: "CNI bridge plugin
// v1.4.0", or the last of "CNI protocol versions supported: 0.4.0, 1.0.0" where it was built
// without a version.
var (
	ownVersion = regexp.MustCompile(`(?m)^CNI .*\bv(\d+\.\d+\.\d+\S*)$`)
	anyVersion = regexp.MustCompile(`\d+\.\d+\.\d+`)
)

// programVersions returns the attributes of the programs. Each is asked once until its file
// changes.
func (n *Network) programVersions(ctx context.Context, set settings) map[string]string {
	out, seen := map[string]string{}, map[string]programVersion{}
	for _, dir := range set.programs() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a directory of cni_path need not exist
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || len(seen) == maxPrograms {
				continue
			}
			n.mu.Lock()
			v, known := n.versions[path]
			n.mu.Unlock()
			if !known || v.size != info.Size() || !v.changed.Equal(info.ModTime()) {
				v = programVersion{info.Size(), info.ModTime(), askVersion(ctx, path)}
			}
			seen[path] = v
			if key := "plugins.cni.version." + e.Name(); out[key] == "" && v.version != "" {
				out[key] = v.version
			}
		}
	}
	n.mu.Lock()
	n.versions = seen
	n.mu.Unlock()
	return out
}

// askVersion returns the version of a program; "" if it is none of CNI.
func askVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out, messages, err := run(ctx, path, nil, nil, "--version")
	if err != nil {
		return ""
	}
	text := out.kept.String() + messages.kept.String()
	if own := ownVersion.FindStringSubmatch(text); own != nil {
		return own[1]
	}
	all := anyVersion.FindAllString(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}
