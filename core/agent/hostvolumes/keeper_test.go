// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package hostvolumes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/hostvolumes"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	node = "00000000-0000-4000-8000-000000000001"
	one  = "00000000-0000-4000-8000-0000000000a1"
	two  = "00000000-0000-4000-8000-0000000000a2"
)

// disk is a store that outlives keepers.
type disk struct {
	mu   sync.Mutex
	data map[string][]byte
	fail error
}

func (d *disk) Get(_ context.Context, key string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, ok := d.data[key]; ok {
		return b, nil
	}
	return nil, errdefs.NotFoundf("nothing")
}

func (d *disk) Put(_ context.Context, key string, value []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil {
		d.data[key] = value
	}
	return d.fail
}

// machine is a node with directories and a store.
type machine struct {
	*testing.T
	dir  string
	disk *disk
	hostvolumes.Limits
	static string
}

func newMachine(t *testing.T) *machine {
	m := &machine{T: t, dir: t.TempDir(), disk: &disk{data: map[string][]byte{}}}
	m.Limits = hostvolumes.Limits{Again: 10 * time.Millisecond}
	if err := os.Mkdir(m.plugins(), 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) volumes() string { return filepath.Join(m.dir, "volumes") }
func (m *machine) plugins() string { return filepath.Join(m.dir, "plugins") }

// open is a start of the agent.
func (m *machine) open() *hostvolumes.Keeper {
	k, err := hostvolumes.Open(m.Context(), hostvolumes.Config{
		Dir: m.volumes(), PluginDir: m.plugins(), NodeID: node, NodePool: "default", Store: m.disk, Logger: hclog.NewNullLogger(), Limits: m.Limits,
		Static: func(name string) bool { return name == m.static },
	})
	if err != nil {
		m.Fatal(err)
	}
	return k
}

// script installs a plugin.
func (m *machine) script(name, text string) {
	if err := os.WriteFile(filepath.Join(m.plugins(), name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		m.Fatal(err)
	}
}

// directories is a plugin as an author writes it.
const directories = `
case "$DHV_OPERATION" in
fingerprint) echo '{"version": "1.2.3"}' ;;
create)
  test "$1" = create || exit 9
  mkdir -p "$DHV_VOLUMES_DIR/own-$DHV_VOLUME_ID"
  env | grep ^DHV_ | sort > "$DHV_VOLUMES_DIR/own-$DHV_VOLUME_ID/env"
  printf '{"path": "%s", "bytes": 4096}' "$DHV_VOLUMES_DIR/own-$DHV_VOLUME_ID" ;;
delete) rm -r "$DHV_CREATED_PATH" ;;
*) exit 9 ;;
esac
`

func volume(id, name, plugin string) *model.HostVolume {
	return &model.HostVolume{
		ID: id, Name: name, Namespace: "default", PluginID: plugin, NodePool: "default", NodeID: node,
		RequestedCapabilities: []*model.VolumeCapability{{AccessMode: model.AccessSingleNodeWriter, AttachmentMode: model.AttachmentFileSystem}},
	}
}

func offered(k *hostvolumes.Keeper) map[string]*model.HostVolumeConfig {
	out, _ := k.Offered()
	return out
}

func TestMkdirMakesAVolumeThatSurvivesARestartAndIsRemoved(t *testing.T) {
	m := newMachine(t)
	k := m.open()
	v := volume(one, "data", "mkdir")
	v.Parameters = map[string]string{"mode": "0750"}
	made, err := k.Create(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(made.HostPath)
	if err != nil || made.HostPath != filepath.Join(m.volumes(), one) || info.Mode().Perm() != 0o750 {
		t.Fatalf("made %+v, %v, %v", made, info, err)
	}
	file := filepath.Join(made.HostPath, "f")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Create(t.Context(), v); err != nil { // a repeated request
		t.Fatal(err)
	}
	k = m.open()
	if got := offered(k)["data"]; got == nil || got.ID != one || got.Path != made.HostPath {
		t.Fatalf("after a restart it offers %+v", got)
	}
	if b, err := os.ReadFile(file); string(b) != "kept" {
		t.Fatalf("data %q, %v", b, err)
	}
	for range 2 { // a repeated request
		if err := k.Delete(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(made.HostPath); !os.IsNotExist(err) || len(offered(k)) != 0 || len(offered(m.open())) != 0 {
		t.Errorf("it is not gone: %v, %v", err, offered(k))
	}
}

func TestAnExecutableIsAPluginByTheProtocolOfTheReference(t *testing.T) {
	m := newMachine(t)
	m.script("dirs", directories)
	k := m.open()
	v := volume(one, "data", "dirs")
	v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes, v.Parameters = 1000, 5000, map[string]string{"a": "b c"}
	made, err := k.Create(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if made.CapacityBytes != 4096 || k.Versions()["dirs"] != "1.2.3" || k.Versions()["mkdir"] == "" {
		t.Errorf("made %+v, plugins %v", made, k.Versions())
	}
	env, err := os.ReadFile(filepath.Join(made.HostPath, "env"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DHV_CAPACITY_MAX_BYTES=5000", "DHV_CAPACITY_MIN_BYTES=1000", "DHV_NAMESPACE=default", "DHV_NODE_ID=" + node, "DHV_NODE_POOL=default",
		"DHV_OPERATION=create", `DHV_PARAMETERS={"a":"b c"}`, "DHV_PLUGIN_DIR=" + m.plugins(), "DHV_VOLUMES_DIR=" + m.volumes(), "DHV_VOLUME_ID=" + one, "DHV_VOLUME_NAME=data",
	}
	if got := strings.Split(strings.TrimSpace(string(env)), "\n"); !slices.Equal(got, want) {
		t.Errorf("environment\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := k.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(made.HostPath); !os.IsNotExist(err) {
		t.Errorf("it is not gone: %v", err)
	}
}

// What its plugin must make again after a restart of the machine is offered only then.
func TestAVolumeOfAnExecutableIsMadeAgainAfterARestart(t *testing.T) {
	m := newMachine(t)
	m.script("dirs", directories)
	made, err := m.open().Create(t.Context(), volume(one, "data", "dirs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(made.HostPath); err != nil { // as if it was a mount
		t.Fatal(err)
	}
	k := m.open()
	if got := offered(k); len(got) != 0 {
		t.Errorf("offered before it is made: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go k.Run(ctx)
	testkit.Eventually(t, "the volume is offered again", func() bool { return offered(k)["data"] != nil })
}

// A lost directory of mkdir is not made anew: its data would be lost without a word.
func TestALostDirectoryIsNotMadeAnew(t *testing.T) {
	m := newMachine(t)
	made, err := m.open().Create(t.Context(), volume(one, "data", "mkdir"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(made.HostPath, made.HostPath+".away"); err != nil {
		t.Fatal(err)
	}
	k := m.open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go k.Run(ctx)
	if got := offered(k); len(got) != 0 {
		t.Errorf("it offers %v", got)
	}
	if err := os.Rename(made.HostPath+".away", made.HostPath); err != nil {
		t.Fatalf("the directory was made anew: %v", err)
	}
	testkit.Eventually(t, "the volume is offered when its directory is back", func() bool { return offered(k)["data"] != nil })
}

func TestARegisteredVolumeIsForgottenAndItsDirectoryStays(t *testing.T) {
	m := newMachine(t)
	k := m.open()
	dir := filepath.Join(m.dir, "mine")
	v := volume(one, "data", "mkdir")
	v.Registered, v.HostPath = true, dir
	if _, err := k.Register(t.Context(), v); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Register(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if got := offered(m.open())["data"]; got == nil || got.Path != dir {
		t.Errorf("after a restart it offers %+v", got)
	}
	if err := k.Delete(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil || len(offered(m.open())) != 0 {
		t.Errorf("the directory: %v; offered: %v", err, offered(k))
	}
}

func TestAFailedPluginLeavesNoVolume(t *testing.T) {
	for what, c := range map[string]struct {
		create string
		want   string
	}{
		"it fails":            {`echo "no space: it is full" >&2; exit 3`, "no space: it is full"},
		"it answers nothing":  {``, "no JSON"},
		"it answers too much": {`head -c 100000 /dev/zero`, "more than"},
		"a relative path":     {`echo '{"path": "x"}'`, "must be absolute"},
		"the root":            {`echo '{"path": "/"}'`, "must be absolute"},
		"no path":             {`echo '{}'`, "must be absolute"},
		"a path with ..":      {`echo '{"path": "/tmp/../tmp"}'`, "must be absolute"},
		"no directory":        {`echo '{"path": "/nowhere/at/all"}'`, "says that it has made the volume"},
		"a file":              {`echo '{"path": "'"$0"'"}'`, "is not a directory"},
		"too small":           {`echo '{"path": "/tmp", "bytes": 5}'`, "at least 10 were requested"},
	} {
		t.Run(what, func(t *testing.T) {
			m := newMachine(t)
			m.script("bad", "if [ \"$1\" = fingerprint ]; then echo '{\"version\": \"1\"}'; exit; fi\n"+c.create+"\n")
			k := m.open()
			v := volume(one, "data", "bad")
			v.RequestedCapacityMinBytes = 10
			_, err := k.Create(t.Context(), v)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if len(offered(k)) != 0 || strings.Contains(string(m.disk.data["hostvolumes"]), one) {
				t.Errorf("it is kept: %s", m.disk.data["hostvolumes"])
			}
		})
	}
}

func TestWhatAPluginHasMadeIsRemovedIfItsAnswerCannotBeUsed(t *testing.T) {
	for what, answer := range map[string]string{
		"too small":          `{"path": "'$DHV_PLUGIN_DIR'/made", "bytes": 5}`,
		"a path with a dot":  `{"path": "'$DHV_PLUGIN_DIR'/./made"}`,
		"no JSON":            `made it`,
		"something beside":   `done {}`,
		"a negative size":    `{"path": "'$DHV_PLUGIN_DIR'/made", "bytes": -1}`,
		"a directory of air": `{"path": "'$DHV_PLUGIN_DIR'/mad"}`,
	} {
		t.Run(what, func(t *testing.T) {
			m := newMachine(t)
			script := "made=$DHV_PLUGIN_DIR/made\ncase \"$1\" in fingerprint) echo '{\"version\": \"1\"}' ;; create) mkdir $made; echo '" + answer + "' ;; delete) %s rm -r $made; cat /dev/zero | head -c 100000 ;; esac\n"
			m.script("odd", fmt.Sprintf(script, "echo busy >&2; exit 1;"))
			k := m.open()
			v := volume(one, "data", "odd")
			v.RequestedCapacityMinBytes = 10
			if _, err := k.Create(t.Context(), v); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "busy") {
				t.Errorf("where it is not removed either: %v", err)
			}
			if len(offered(k)) != 0 || !strings.Contains(string(m.disk.data["hostvolumes"]), one) {
				t.Errorf("what stays is recorded as %s", m.disk.data["hostvolumes"])
			}
			m.script("odd", fmt.Sprintf(script, ""))
			if err := m.open().Delete(t.Context(), one); err != nil {
				t.Error(err)
			}
			if _, err := m.open().Create(t.Context(), v); err == nil {
				t.Error("it is created")
			}
			if _, err := os.Stat(filepath.Join(m.plugins(), "made")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what it has made is left: %v", err)
			}
			if strings.Contains(string(m.disk.data["hostvolumes"]), one) {
				t.Errorf("it is kept: %s", m.disk.data["hostvolumes"])
			}
		})
	}
}

func TestAPluginThatHangsIsKilledWithItsChildren(t *testing.T) {
	m := newMachine(t)
	m.Change = 200 * time.Millisecond
	m.script("slow", `if [ "$1" = fingerprint ]; then echo '{"version": "1"}'; exit; fi
sleep 1000 & echo $! > "$DHV_PLUGIN_DIR/child"; sleep 1000
`)
	k := m.open()
	if _, err := k.Create(t.Context(), volume(one, "data", "slow")); !errdefs.IsDeadlineExceeded(err) {
		t.Errorf("got %v", err)
	}
	pid, err := os.ReadFile(filepath.Join(m.plugins(), "child"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the child of the plugin has ended", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func TestAFailedDeletionIsTriedAgainAndTheVolumeIsOfferedNoMore(t *testing.T) {
	m := newMachine(t)
	m.script("dirs", directories)
	k := m.open()
	if _, err := k.Create(t.Context(), volume(one, "data", "dirs")); err != nil {
		t.Fatal(err)
	}
	m.script("dirs", strings.Replace(directories, "delete) ", "delete) echo busy >&2; exit 1; ", 1))
	if err := k.Delete(t.Context(), one); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
	if len(offered(k)) != 0 || len(offered(m.open())) != 0 {
		t.Errorf("offered: %v", offered(k))
	}
	m.script("dirs", directories)
	if err := m.open().Delete(t.Context(), one); err != nil {
		t.Error(err)
	}
}

func TestNamesAndIDsAreTakenOnce(t *testing.T) {
	m := newMachine(t)
	m.static = "static"
	k := m.open()
	if _, err := k.Create(t.Context(), volume(one, "data", "mkdir")); err != nil {
		t.Fatal(err)
	}
	foreign := volume(two, "x", "mkdir")
	foreign.NodeID = two
	for what, v := range map[string]*model.HostVolume{
		"a name that is taken":         volume(two, "data", "mkdir"),
		"a name of the configuration":  volume(two, "static", "mkdir"),
		"a plugin that is not there":   volume(two, "x", "none"),
		"a plugin with a path":         volume(two, "x", "../x"),
		"an id with slashes":           volume("../../etc", "x", "mkdir"),
		"a volume for another machine": foreign,
	} {
		if _, err := k.Create(t.Context(), v); err == nil {
			t.Errorf("%s: it is made", what)
		}
	}
	if got := slices.Sorted(maps.Keys(offered(k))); !slices.Equal(got, []string{"data"}) {
		t.Errorf("offered: %v", got)
	}
	bad := volume(two, "x", "mkdir")
	bad.Parameters = map[string]string{"color": "red"}
	if _, err := k.Create(t.Context(), bad); err == nil || !strings.Contains(err.Error(), `no parameter "color"`) {
		t.Errorf("an unknown parameter: %v", err)
	}
}

// Nothing is made before it is written down.
func TestAVolumeIsWrittenDownBeforeItIsMade(t *testing.T) {
	m := newMachine(t)
	k := m.open()
	m.disk.fail = errors.New("disk full")
	if _, err := k.Create(t.Context(), volume(one, "data", "mkdir")); err == nil {
		t.Fatal("it is made")
	}
	if _, err := os.Stat(filepath.Join(m.volumes(), one)); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}
}

func TestPluginsComeAndGoWhileTheAgentRuns(t *testing.T) {
	m := newMachine(t)
	m.Look = 10 * time.Millisecond
	k := m.open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go k.Run(ctx)
	m.script("later", directories)
	m.script("nonsense", "echo hello")
	if err := os.WriteFile(filepath.Join(m.plugins(), "README.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the plugin is found", func() bool { return k.Versions()["later"] == "1.2.3" })
	if got := fmt.Sprint(slices.Sorted(maps.Keys(k.Versions()))); got != "[later mkdir]" {
		t.Errorf("plugins: %s", got)
	}
	if err := os.Remove(filepath.Join(m.plugins(), "later")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the plugin is forgotten", func() bool { return k.Versions()["later"] == "" })
}
