// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

const (
	emulatorPrefix  = "qemu-system-"
	defaultEmulator = emulatorPrefix + "x86_64"
	// usualPath is searched if the agent's PATH is empty.
	usualPath = "/usr/local/bin:/usr/bin:/bin"
	// lookEvery is the interval at which the machine is searched for emulators.
	lookEvery = 30 * time.Second
	// askLimit is the time limit for an emulator to print its version or features.
	askLimit = 10 * time.Second
)

// archOf returns the architecture that an emulator emulates, from its name.
func archOf(emulator string) string {
	return strings.TrimPrefix(filepath.Base(emulator), emulatorPrefix)
}

func searchPath() []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = usualPath
	}
	return slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) })
}

// find returns the path of an emulator that a task may use. name is its file name,
// an architecture, or a path that the operator has listed.
func find(name string, allowed []string) (string, error) {
	named := func(a string) bool {
		return a == name || !strings.Contains(a, "/") && !strings.Contains(name, "/") && archOf(a) == archOf(name)
	}
	if len(allowed) > 0 && !slices.ContainsFunc(allowed, named) {
		return "", &refusedError{fmt.Sprintf("config.emulator: %q is not in the agent's emulators_allowlist (%s)", name, strings.Join(allowed, ", "))}
	}
	if strings.Contains(name, "/") {
		if len(allowed) == 0 || !filepath.IsAbs(name) {
			return "", &refusedError{fmt.Sprintf("config.emulator: %q: a path is allowed only if it is in the agent's emulators_allowlist; use the name of an emulator in PATH", name)}
		}
		if st, err := os.Stat(name); err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
			return "", fmt.Errorf("config.emulator: %s is not a program on this node; install it", name)
		}
		return name, nil
	}
	for _, dir := range searchPath() {
		path := filepath.Join(dir, emulatorPrefix+archOf(name))
		if st, err := os.Stat(path); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("config.emulator: there is no %s%s in PATH on this node; install QEMU, or use a constraint on the attribute driver.qemu.emulators", emulatorPrefix, archOf(name))
}

// emulators caches what emulators report about themselves, until their files change.
type emulators struct {
	mu    sync.Mutex
	known map[string]said // by path, size and modification time of the file
}

type said struct {
	version  string
	features features
}

func newEmulators() *emulators { return &emulators{known: map[string]said{}} }

var versionPattern = regexp.MustCompile(`version (\d+(?:\.\d+)+)`)

// ask returns the version and features of an emulator. If an emulator fails to
// answer, it is asked again the next time.
func (e *emulators) ask(ctx context.Context, path string) said {
	st, err := os.Stat(path)
	if err != nil {
		return said{}
	}
	key := fmt.Sprintf("%s %d %d", path, st.Size(), st.ModTime().UnixNano())
	e.mu.Lock()
	s, ok := e.known[key]
	e.mu.Unlock()
	if ok {
		return s
	}
	s.features.Sandbox = true
	out, err := run(ctx, path, "-sandbox", "on", "-version")
	if err != nil { // built without seccomp support
		s.features.Sandbox = false
		out, err = run(ctx, path, "-version")
	}
	if found := versionPattern.FindStringSubmatch(out); found != nil && err == nil {
		s.version = found[1]
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.known) > 100 { // many upgrades
			clear(e.known)
		}
		e.known[key] = s
	}
	return s
}

func run(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return string(out), err
}

func (e *emulators) features(ctx context.Context, path string) features {
	return e.ask(ctx, path).features
}

// list returns the emulators that tasks may use, by architecture.
func list(allowed []string) map[string]string {
	out := map[string]string{}
	for _, dir := range searchPath() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			arch, ok := strings.CutPrefix(entry.Name(), emulatorPrefix)
			if _, have := out[arch]; !ok || have {
				continue
			}
			if path, err := find(entry.Name(), allowed); err == nil {
				out[arch] = path
			}
		}
	}
	for _, a := range allowed {
		if !filepath.IsAbs(a) {
			continue
		}
		if path, err := find(a, allowed); err == nil {
			out[archOf(a)] = path
		}
	}
	return out
}

// Fingerprint implements driver.Driver. It searches the machine when the config
// changes and every lookEvery.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	var last driver.Fingerprint
	var looked time.Time
	var of <-chan struct{} // if it differs from the current one, last belongs to another config
	return d.Fingerprints(ctx, func() (driver.Fingerprint, <-chan struct{}) {
		agent, changed := d.agent.Get()
		if now := time.Now(); of != changed || now.Sub(looked) >= lookEvery {
			last, looked, of = d.fingerprint(ctx, agent), now, changed
		}
		return last, changed
	}), nil
}

func (d *Driver) fingerprint(ctx context.Context, agent agentConfig) driver.Fingerprint {
	undetected := func(why string) driver.Fingerprint {
		return driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: why}
	}
	if unavailable != "" {
		return undetected(unavailable)
	}
	found := list(agent.EmulatorsAllowlist)
	if len(found) == 0 {
		return undetected("there is no " + emulatorPrefix + "* in PATH that tasks may use; install QEMU")
	}
	archs := make([]string, 0, len(found))
	for arch := range found {
		archs = append(archs, arch)
	}
	slices.Sort(archs)
	asked := archs[0]
	for _, arch := range []string{archOf(defaultEmulator), runtime.GOARCH} {
		if found[arch] != "" {
			asked = arch
			break
		}
	}
	s := d.found.ask(ctx, found[asked])
	if s.version == "" {
		return undetected(found[asked] + " does not say its version; check that it runs")
	}
	return driver.Fingerprint{
		Attributes: map[string]string{
			"driver.qemu": "1", "driver.qemu.version": s.version, "driver.qemu.emulators": strings.Join(archs, ","),
		},
		Health: driver.HealthHealthy, HealthDescription: "Healthy",
	}
}
