// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
)

// storing installs a version of a plugin with one storage plugin.
func storing(t *testing.T, h *pluginhost.Host, version string) {
	t.Helper()
	if err := installVersioned(t, h, version, `"Volumes":["vol"]`); err != nil {
		t.Fatal(err)
	}
}

// published publishes a volume of a storage plugin and returns what it says it has then.
func published(t *testing.T, h *pluginhost.Host, name, target string) (all []volume.Publication, err error) {
	t.Helper()
	err = h.WithVolume(t.Context(), name, func(ctx context.Context, v volume.Backend) error {
		access := volume.Access{Mode: "single-node-writer", Attachment: "file-system"}
		d, err := v.Create(ctx, volume.CreateRequest{Name: "a", Access: []volume.Access{access}})
		if err != nil {
			return err
		}
		if err := v.Publish(ctx, volume.PublishRequest{ID: d.ID, TargetPath: target, Access: access}); err != nil {
			return err
		}
		all, err = v.Published(ctx)
		return err
	})
	return all, err
}

func TestVolumesStayOverTheDeathAndTheUpgradeOfTheirPlugin(t *testing.T) {
	h := start(t, quick(t))
	target := filepath.Join(t.TempDir(), "target")
	if _, err := published(t, h, "vol", target); !errdefs.IsNotFound(err) {
		t.Fatalf("without a plugin: %v, want NotFound", err)
	}
	storing(t, h, "1.0.0")
	if st := only(t, h); !slices.Equal(st.Volumes, []string{"vol"}) {
		t.Fatalf("the status says that it serves the storage plugins %q", st.Volumes)
	}
	prints, _ := h.Volumes()
	if len(prints) != 1 || prints[0].Name != "vol" || !prints[0].Can("create") || prints[0].Node == nil {
		t.Fatalf("fingerprints %+v", prints)
	}
	same := func(when string) {
		t.Helper()
		eventually(t, "the volume is published "+when, func() bool {
			all, err := published(t, h, "vol", target)
			return err == nil && len(all) == 1 && slices.Equal(all[0].TargetPaths, []string{target})
		})
	}
	same("at first")
	if err := kill(only(t, h).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	same("after its plugin was killed")
	storing(t, h, "2.0.0")
	same("after its plugin was upgraded")
	err := h.WithVolume(t.Context(), "vol", func(ctx context.Context, v volume.Backend) error {
		return v.Stage(ctx, volume.StageRequest{ID: "a", StagingPath: target})
	})
	if !errdefs.IsUnimplemented(err) {
		t.Errorf("a step that the plugin does not have: %v, want Unimplemented", err)
	}
}

func TestAnInstanceOfAStoragePluginRunsAsLongAsItIsWanted(t *testing.T) {
	h := start(t, quick(t))
	i := pluginhost.VolumeInstance{Name: "org.example.disk", Plugin: "versioned"}
	if err := h.RunVolume(t.Context(), i); !errdefs.IsNotFound(err) {
		t.Fatalf("without a plugin: %v, want NotFound", err)
	}
	storing(t, h, "1.0.0")
	for range 2 { // the second changes nothing
		if err := h.RunVolume(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	of := func(name string) (out pluginhost.PluginStatus) {
		for _, st := range h.Status() {
			if st.Name == name {
				out = st
			}
		}
		return out
	}
	const name = "versioned@org.example.disk"
	first := of(name)
	if first.State != pluginhost.StateRunning || !slices.Equal(first.Volumes, []string{i.Name}) {
		t.Fatalf("the instance is %+v", first)
	}
	target := filepath.Join(t.TempDir(), "target")
	eventually(t, "the instance publishes", func() bool {
		all, err := published(t, h, i.Name, target)
		return err == nil && len(all) == 1
	})
	if all, err := published(t, h, "vol", target+"2"); err != nil || len(all) != 1 || all[0].TargetPaths[0] == target {
		t.Errorf("the plugin itself has %+v, %v", all, err)
	}
	if err := kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the instance is restarted and knows what it published", func() bool {
		all, err := published(t, h, i.Name, target)
		return err == nil && len(all) == 1 && of(name).PID != first.PID
	})
	storing(t, h, "2.0.0")
	eventually(t, "the instance runs the new version", func() bool { return of(name).Version == "2.0.0" })
	if err := h.EndVolume(t.Context(), i.Plugin, i.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := published(t, h, i.Name, target); !errdefs.IsNotFound(err) {
		t.Errorf("after its end: %v, want NotFound", err)
	}
	for _, bad := range []string{"", "a/b", "..", "a b"} {
		if err := h.RunVolume(t.Context(), pluginhost.VolumeInstance{Name: bad, Plugin: "versioned"}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("instance %q: %v, want InvalidArgument", bad, err)
		}
	}
}

// TestAPluginThatWaitsForItsInstancesHasNoProcess has a plugin that is started only for
// what it is needed for: not at the start of the agent, nor because its file is looked at.
func TestAPluginThatWaitsForItsInstancesHasNoProcess(t *testing.T) {
	cfg := quick(t)
	cfg.OnDemand = []string{"waiting"}
	body := fmt.Appendf(append([]byte{}, versioned()...), "\n{\"Version\":%q,\"Volumes\":[\"vol\"]}", "1.0.0")
	path := filepath.Join(cfg.Dir, "waiting")
	if err := os.WriteFile(path, body, 0o755); err != nil {
		t.Fatal(err)
	}
	h := start(t, cfg)
	eventually(t, "its digest is known", func() bool { return only(t, h).Digest != "" })
	if st := only(t, h); st.State != pluginhost.StateResting || st.PID != 0 || st.Version != "" {
		t.Fatalf("after the start of the host it is %+v", st)
	}
	if err := h.RunVolume(t.Context(), pluginhost.VolumeInstance{Name: "disk", Plugin: "waiting"}); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	eventually(t, "an instance publishes", func() bool {
		_, err := published(t, h, "disk", target)
		return err == nil
	})
	if st, err := h.Plugin("waiting"); err != nil || st.State != pluginhost.StateResting || st.PID != 0 {
		t.Errorf("beside its instance it is %+v, %v", st, err)
	}
	if err := h.Reload(t.Context(), "waiting"); err != nil {
		t.Fatal(err)
	}
	if st, err := h.Plugin("waiting"); err != nil || st.Version != "1.0.0" || !slices.Equal(st.Volumes, []string{"vol"}) {
		t.Errorf("after an operator has reloaded it, it is %+v, %v", st, err)
	}
}
