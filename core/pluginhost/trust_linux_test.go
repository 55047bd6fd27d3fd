// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// confinedConfig is that of a host that confines plugins, as an agent's does. The
// plugins see the folder of the test's binaries.
func confinedConfig(t *testing.T, names ...string) pluginhost.Config {
	t.Helper()
	cfg := config(t, names...)
	cfg.Confine = true
	for _, path := range []string{cfg.StateDir, cfg.Dir, filepath.Dir(binary)} { // others may pass
		for dir := path; dir != "/"; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&1 == 0 {
				if err := os.Chmod(dir, info.Mode().Perm()|1); err != nil {
					t.Skip(err)
				}
			}
		}
	}
	return cfg
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives plugins users of their own")
	}
}

// line is one line of /proc/PID/status.
func procStatus(t *testing.T, pid int, key string) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in the status of %d", key, pid)
	return ""
}

func TestAnotherProcessCannotCallAPlugin(t *testing.T) {
	h := start(t, config(t, "good"))
	st := only(t, h)
	if !st.TLS || st.Socket == "" {
		t.Fatalf("the connection of a plugin of the SDK: TLS %v, socket %q", st.TLS, st.Socket)
	}
	if info, err := os.Stat(filepath.Dir(st.Socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the socket: %v, %v", info, err)
	}
	conn, err := grpc.NewClient("unix:"+st.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if info, err := plugin.Ask(t.Context(), conn); err == nil {
		t.Fatalf("it answered somebody who is not its host: %+v", info)
	}
}

func TestThePluginsOfOneHostHaveFoldersOfTheirOwnForSockets(t *testing.T) {
	h := start(t, config(t, "good", "collects"))
	dirs := map[string]bool{}
	for _, st := range h.Status() {
		if st.Socket != "" {
			dirs[filepath.Dir(st.Socket)] = true
		}
	}
	if len(dirs) != 2 {
		t.Fatalf("two plugins have their sockets in %v: %+v", dirs, h.Status())
	}
}

func TestAHostThatReattachesCallsWithTheCertificateOfBefore(t *testing.T) {
	cfg := config(t, "good")
	h := start(t, cfg)
	before := only(t, h)
	h.Close(true)
	h = start(t, cfg)
	now := only(t, h)
	if now.PID != before.PID || !now.Reattached || !now.TLS {
		t.Fatalf("before %d, now %d; reattached %v, TLS %v", before.PID, now.PID, now.Reattached, now.TLS)
	}
	shell(t, h)
}

func TestAPluginThatIsNoDriverHasOnlyTheRightsOfItsKind(t *testing.T) {
	needRoot(t)
	cfg := confinedConfig(t, "collects")
	needed(t, &cfg, "collects")
	h := start(t, cfg)
	st := reading(t, h)
	if st.Granted == nil {
		t.Fatalf("it did not start: %v", st.LastError)
	}
	for _, what := range st.Granted.Lacking {
		if strings.Contains(what, "CAP_SYS_RESOURCE") {
			continue
		}
		t.Fatalf("not enforced: %v", st.Granted.Lacking)
	}
	uid := strconv.Itoa(st.Granted.UID)
	if !confine.IsOwnUserID(st.Granted.UID) || procStatus(t, st.PID, "Uid") != strings.Join([]string{uid, uid, uid, uid}, "\t") {
		t.Errorf("its users are %s, and it says %d", procStatus(t, st.PID, "Uid"), st.Granted.UID)
	}
	for key, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapBnd": strings.Repeat("0", 16), "CapEff": strings.Repeat("0", 16)} {
		if got := procStatus(t, st.PID, key); got != want {
			t.Errorf("%s of it is %s, want %s", key, got, want)
		}
	}
	if cwd, err := os.Readlink("/proc/" + strconv.Itoa(st.PID) + "/cwd"); err != nil || cwd != st.Granted.Folder {
		t.Errorf("its working directory is %s (%v), and its state folder %s", cwd, err, st.Granted.Folder)
	}
}

func TestADriverKeepsTheRightsOfTheAgent(t *testing.T) {
	h := start(t, confinedConfig(t, "good"))
	st := only(t, h)
	for _, key := range []string{"Uid", "CapEff", "NoNewPrivs", "Seccomp"} {
		if got, want := procStatus(t, st.PID, key), procStatus(t, os.Getpid(), key); got != want {
			t.Errorf("%s of it is %s, and of the agent %s", key, got, want)
		}
	}
	if st.Granted.Profile != confine.ProfileDriver || st.Granted.MemoryMB == 0 {
		t.Errorf("it has %+v", st.Granted)
	}
}

func TestAProcessWithOtherRightsThanConfiguredIsReplaced(t *testing.T) {
	cfg := confinedConfig(t, "good")
	h := start(t, cfg)
	before := only(t, h).PID
	h.Close(true)
	no := true
	cfg.Access = map[string]confine.Access{"good": {NoNewPrivileges: &no}}
	h = start(t, cfg)
	if st := only(t, h); st.PID == before || procStatus(t, st.PID, "NoNewPrivs") != "1" {
		t.Fatalf("before %d, now %+v", before, st)
	}
}

// attacked starts the hostile plugin with what it looks for, and returns its status and what
// came of its attempts. What it may do follows from a directory to which every user may write.
func attacked(t *testing.T, access func(public string) confine.Access) (st pluginhost.PluginStatus, could map[string]string) {
	t.Helper()
	cfg := confinedConfig(t, "hostile")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	data, public := t.TempDir(), t.TempDir()
	secret := filepath.Join(data, "key")
	if err := os.WriteFile(secret, []byte("of the keyring"), 0o644); err != nil { // what its user could read
		t.Fatal(err)
	}
	if err := os.Chmod(public, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(data), filepath.Dir(public)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Hidden = []string{data}
	cfg.Access = map[string]confine.Access{"hostile": access(public)}
	cfg.Env = []string{"HOSTILE_SECRET=" + secret, "HOSTILE_DIR=" + data, "HOSTILE_PUBLIC=" + public, "HOSTILE_ADDRESS=" + l.Addr().String()}
	h := start(t, cfg)
	st = only(t, h)
	if st.Granted == nil || st.PID == 0 {
		t.Fatalf("it did not start: %v", st.LastError)
	}
	raw, err := os.ReadFile(filepath.Join(st.Granted.Folder, "findings.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &could); err != nil {
		t.Fatal(err)
	}
	return st, could
}

func TestAHostilePluginIsRefused(t *testing.T) {
	needRoot(t)
	st, could := attacked(t, func(string) confine.Access { return confine.Access{} })
	for _, what := range []string{"read", "list", "write", "network", "signal", "environment", "memory", "trace", "mount", "namespace"} {
		if could[what] == "" {
			t.Errorf("it could do this: %s", what)
		}
	}
	for _, what := range []string{"own folder", "leave"} {
		if could[what] != "" {
			t.Errorf("it could not do what it may: %s: %s", what, could[what])
		}
	}
	if n, err := strconv.Atoi(could["sockets"]); err != nil || n > st.Granted.OpenFiles && !lacksFileLimit(st.Granted.Lacking) {
		t.Errorf("it opened %s sockets", could["sockets"])
	}
}

// TestTheKeysOfAPluginsBlockChangeWhatItMay gives a collector, one by one, what its profile
// does not.
func TestTheKeysOfAPluginsBlockChangeWhatItMay(t *testing.T) {
	needRoot(t)
	yes, no := true, false
	t.Run("some", func(t *testing.T) {
		st, could := attacked(t, func(public string) confine.Access {
			return confine.Access{
				User: "daemon", Groups: []string{"mail"}, Capabilities: []string{"CAP_NET_RAW"}, Network: &yes,
				WritePaths: []string{public}, OpenFiles: 99, Pids: 77, MemoryMB: 66, StateMB: 55,
			}
		})
		for key, want := range map[string]string{"Uid": "1\t1\t1\t1", "Groups": "8", "CapBnd": "0000000000002000", "NoNewPrivs": "1", "Seccomp": "2"} {
			if got := procStatus(t, st.PID, key); got != want {
				t.Errorf("%s of it is %q, want %q", key, got, want)
			}
		}
		for _, what := range []string{"network", "write", "own folder"} {
			if could[what] != "" {
				t.Errorf("it could not do what its block allows: %s: %s", what, could[what])
			}
		}
		for _, what := range []string{"read", "list", "memory", "trace", "mount", "namespace"} {
			if could[what] == "" {
				t.Errorf("it could do this: %s", what)
			}
		}
		if g := st.Granted; g.OpenFiles != 99 || g.Pids != 77 || g.MemoryMB != 66 || g.StateMB != 55 {
			t.Errorf("its limits are %+v", g.Rights)
		}
	})
	// With all capabilities it would stop this process by tracing it.
	t.Run("all but capabilities", func(t *testing.T) {
		st, could := attacked(t, func(string) confine.Access {
			return confine.Access{NoNewPrivileges: &no, Filesystem: "all", Syscalls: "all", Network: &yes, MemoryMB: -1}
		})
		for _, key := range []string{"NoNewPrivs", "Seccomp"} {
			if got, want := procStatus(t, st.PID, key), procStatus(t, os.Getpid(), key); got != want {
				t.Errorf("%s of it is %q, want %q", key, got, want)
			}
		}
		for _, what := range []string{"network", "write", "read", "list"} {
			if could[what] != "" {
				t.Errorf("it could not do what its block allows: %s: %s", what, could[what])
			}
		}
		if st.Granted.MemoryMB != 0 {
			t.Errorf("its memory is limited to %d MiB", st.Granted.MemoryMB)
		}
	})
}

// TestARegistryIsTheAgentsUserAndHasLittleElse also says what follows from that user: the
// plugin may signal the agent.
func TestARegistryIsTheAgentsUserAndHasLittleElse(t *testing.T) {
	needRoot(t)
	_, could := attacked(t, func(string) confine.Access { return confine.Access{Profile: confine.ProfileRegistry} })
	for _, what := range []string{"read", "list", "write", "environment", "memory", "trace", "mount", "namespace"} {
		if could[what] == "" {
			t.Errorf("it could do this: %s", what)
		}
	}
	for _, what := range []string{"own folder", "network"} {
		if could[what] != "" {
			t.Errorf("it could not do what it may: %s: %s", what, could[what])
		}
	}
}

func lacksFileLimit(lacking []string) bool {
	return slices.ContainsFunc(lacking, func(what string) bool { return strings.Contains(what, "CAP_SYS_RESOURCE") })
}

func TestWhatAPluginLeavesBehindIsEnded(t *testing.T) {
	needRoot(t)
	needCgroups(t)
	h := start(t, confinedConfig(t, "hostile"))
	st := only(t, h)
	if st.Granted == nil {
		t.Fatalf("it did not start: %v", st.LastError)
	}
	raw, err := os.ReadFile(filepath.Join(st.Granted.Folder, "findings.json"))
	if err != nil {
		t.Fatal(err)
	}
	could := map[string]string{}
	if err := json.Unmarshal(raw, &could); err != nil {
		t.Fatal(err)
	}
	left := "/proc/" + could["pid"] + "/cmdline"
	if line, err := os.ReadFile(left); err != nil || len(line) == 0 {
		t.Fatalf("what it started in a session of its own: %q, %v", line, err)
	}
	h.Close(false)
	eventually(t, "it is ended", func() bool {
		line, err := os.ReadFile(left)
		return err != nil || len(line) == 0
	})
}

func TestAPluginWithAFullFolderIsNotStarted(t *testing.T) {
	needRoot(t)
	for _, profile := range []string{confine.ProfileDevice, confine.ProfileDriver} {
		t.Run(profile, func(t *testing.T) {
			cfg := confinedConfig(t, "filler")
			cfg.Access = map[string]confine.Access{"filler": {Profile: profile, StateMB: 1}}
			h := start(t, cfg)
			if st := only(t, h); st.PID == 0 {
				t.Fatalf("with an empty folder: %v", st.LastError)
			}
			h.Close(false)
			h = start(t, cfg)
			st := only(t, h)
			if st.LastError == nil || !errdefs.IsResourceExhausted(st.LastError) || !strings.Contains(st.LastError.Error(), "state_mb") {
				t.Fatalf("with a full folder: %+v", st.LastError)
			}
		})
	}
}

func TestAVersionOfAnotherKindDoesNotBecomeADriver(t *testing.T) {
	needRoot(t)
	cfg := confinedConfig(t, "changes")
	h := start(t, cfg)
	st := only(t, h)
	if st.Granted == nil || st.Granted.Profile != confine.ProfileStats {
		t.Fatalf("its rights: %+v (%v)", st.Granted, st.LastError)
	}
	if err := os.WriteFile(filepath.Join(st.Granted.Folder, "driver"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h.Close(false)
	h = start(t, cfg)
	if st := only(t, h); st.LastError == nil || !strings.Contains(st.LastError.Error(), `profile = "driver"`) {
		t.Fatalf("a collector that says that it is a driver: %+v", st)
	}
	h.Close(false)
	cfg.Access = map[string]confine.Access{"changes": {Profile: confine.ProfileDriver}}
	h = start(t, cfg)
	if st := only(t, h); st.LastError != nil || st.Granted.Profile != confine.ProfileDriver {
		t.Fatalf("with the profile: %+v", st)
	}
}

func TestASocketOfSomebodyElseIsRefused(t *testing.T) {
	cfg := config(t, "impostor")
	other := filepath.Join(t.TempDir(), "other")
	l, err := net.Listen("unix", other)
	if err != nil {
		t.Skip(err) // too long a path
	}
	defer l.Close()
	cfg.Env = []string{"HOSTILE_SOCKET=" + other}
	cfg.StartTimeout = 10 * time.Second
	h := start(t, cfg)
	if st := only(t, h); st.LastError == nil || !strings.Contains(st.LastError.Error(), "none of the plugin's") {
		t.Fatalf("the host talks to a socket of this test: %v", st.LastError)
	}
}

func TestWhatAPluginPrintsIsLoggedWithItsName(t *testing.T) {
	var log written
	cfg := config(t, "prints")
	needed(t, &cfg, "prints")
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "plugins", Output: &log, Level: hclog.Info})
	h := start(t, cfg)
	for _, line := range []string{"a line that was printed", "a line of complaint", "a line of the runtime"} {
		eventually(t, line, func() bool {
			reading(t, h)
			return strings.Contains(log.String(), "[INFO]  plugins.prints: "+line)
		})
	}
}

func TestTheStacksOfSIGQUITAreKept(t *testing.T) {
	cfg, _ := withCollectors(t)
	h := start(t, cfg)
	if err := kill(reading(t, h).PID, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cfg.StateDir, "stacks", "collects.txt")
	eventually(t, "the stacks are in a file", func() bool {
		body, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(body), "goroutine 1 ")
	})
}

func TestATaskIsNotCountedAgainstItsPlugin(t *testing.T) {
	needCgroups(t)
	h := start(t, confinedConfig(t, "good"))
	st := only(t, h)
	startTask(t, shell(t, h), "t", "sleep 1000")
	for _, pid := range confine.Descendants(st.PID) {
		if dir := groupOf(t, pid, "pids"); dir == groupOf(t, st.PID, "pids") {
			t.Errorf("a process of a task is in the cgroup of its plugin, %s", dir)
		}
	}
}
