// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/plugin"
)

// jvm is an installed JVM with the properties that it reports.
type jvm struct {
	File    jvmFile `json:"file"`
	Version string  `json:"version"`
	Runtime string  `json:"runtime"`
	VM      string  `json:"vm"`
	// Home is the installation directory. Parts are directories outside Home that links
	// in Home lead to, such as the configuration in /etc on some distributions.
	Home  string   `json:"home"`
	Parts []string `json:"parts,omitempty"`
}

// jvmFile identifies a java executable. As long as it does not change, it is not
// queried again.
type jvmFile struct {
	Path    string    `json:"path"` // with links resolved
	ModTime time.Time `json:"mod_time"`
	Size    int64     `json:"size"`
}

func (f jvmFile) same(g jvmFile) bool {
	return f.Path == g.Path && f.Size == g.Size && f.ModTime.Equal(g.ModTime)
}

// jvmFinder finds the JVM in the agent's PATH. It caches the JVM's properties in a
// file for the plugin's next process.
type jvmFinder struct {
	cache string

	asking sync.Mutex // held while a JVM runs

	mu       sync.Mutex
	last     *jvm    // the last result
	failed   jvmFile // the executable that could not be queried
	failure  error   // why it could not be queried
	retryAt  time.Time
	fromDisk sync.Once
}

// jvmLimit is the time limit for a JVM to answer, jvmRetry the time until a JVM that
// failed is queried again.
const (
	jvmLimit = 30 * time.Second
	jvmRetry = 10 * time.Minute
)

func newJVMFinder(dir string) *jvmFinder { return &jvmFinder{cache: filepath.Join(dir, "jvm.json")} }

// locate finds the executable without running it.
func locate() (jvmFile, error) {
	const missing = "there is no java in the agent's PATH %q: %w; install a Java runtime to run java tasks here"
	name, err := exec.LookPath("java")
	if err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	if err != nil {
		return jvmFile{}, fmt.Errorf(missing, os.Getenv("PATH"), err)
	}
	st, err := os.Stat(name)
	if err != nil {
		return jvmFile{}, fmt.Errorf(missing, os.Getenv("PATH"), err)
	}
	return jvmFile{Path: name, ModTime: st.ModTime(), Size: st.Size()}, nil
}

// known returns the JVM without running it. It returns errAskJVM if that is not
// possible.
func (f *jvmFinder) known() (*jvm, error) {
	file, err := locate()
	if err != nil {
		return nil, err
	}
	f.fromDisk.Do(f.load)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.last != nil && f.last.File.same(file):
		return f.last, nil
	case f.failure != nil && f.failed.same(file) && time.Now().Before(f.retryAt):
		return nil, f.failure
	}
	return nil, errAskJVM
}

// find returns the JVM, and runs it if its properties are unknown.
func (f *jvmFinder) find(ctx context.Context) (*jvm, error) {
	v, err := f.known()
	if !errors.Is(err, errAskJVM) {
		return v, err
	}
	f.asking.Lock()
	defer f.asking.Unlock()
	if v, err = f.known(); !errors.Is(err, errAskJVM) {
		return v, err
	}
	file, err := locate()
	if err != nil {
		return nil, err
	}
	v, err = askJVM(ctx, file)
	if ctx.Err() != nil {
		return nil, ctx.Err() // this says nothing about the JVM
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failed, f.failure, f.retryAt = file, err, time.Now().Add(jvmRetry)
		return nil, err
	}
	f.last, f.failure = v, nil
	f.save(v)
	return v, nil
}

func (f *jvmFinder) load() {
	raw, err := os.ReadFile(f.cache)
	var v jvm
	if err != nil || json.Unmarshal(raw, &v) != nil || v.Version == "" {
		return // the next process queries it again
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = &v
}

// save caches the properties of a JVM. If that fails, the next process queries the
// JVM again.
func (f *jvmFinder) save(v *jvm) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.cache), 0o700)
	}
	temp := fmt.Sprintf("%s.%d", f.cache, os.Getpid())
	if err == nil {
		err = os.WriteFile(temp, raw, 0o600)
	}
	if err == nil {
		err = os.Rename(temp, f.cache)
	}
	if err != nil {
		plugin.Logger("driver-exec").Debug("the properties of the JVM could not be stored", "error", err)
	}
}

// askJVM runs a JVM to read its properties.
func askJVM(ctx context.Context, file jvmFile) (*jvm, error) {
	limited, cancel := context.WithTimeout(ctx, jvmLimit)
	defer cancel()
	cmd := exec.CommandContext(limited, file.Path, "-XshowSettings:properties", "-version")
	// The agent's environment is not passed on, because variables such as
	// JAVA_TOOL_OPTIONS change the output.
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}, "/", time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s -version: %w: %s; repair that Java runtime or remove it from the agent's PATH", file.Path, err, firstLine(out))
	}
	v, err := parseJVM(out)
	if err != nil {
		return nil, fmt.Errorf("%s -version: %w; repair that Java runtime or remove it from the agent's PATH", file.Path, err)
	}
	v.File = file
	if v.Home == "" {
		v.Home = filepath.Dir(filepath.Dir(file.Path))
	}
	v.Parts = linkedParts(v.Home)
	return v, nil
}

func firstLine(out []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return string(line[:min(len(line), 200)])
}

var versionLine = regexp.MustCompile(`version "([^"]+)"`)

// parseJVM parses the output of java -XshowSettings:properties -version: the
// properties, and then a line each for the version, the runtime and the VM.
func parseJVM(out []byte) (*jvm, error) {
	v := &jvm{}
	var rest []string // the lines from the version on
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		name, value, isProperty := strings.Cut(line, " = ")
		switch m := versionLine.FindStringSubmatch(line); {
		case len(rest) > 0 && line != "":
			rest = append(rest, line)
		case isProperty && name == "java.home":
			v.Home = value
		case m != nil:
			v.Version = m[1]
			rest = append(rest, line)
		}
	}
	if len(rest) < 3 {
		return nil, fmt.Errorf("cannot find version, runtime and vm in its output: %q", firstLine(out))
	}
	v.Runtime, v.VM = rest[1], rest[2]
	return v, nil
}

// maxJVMFiles limits the search for links. A JVM has about 500 files.
const maxJVMFiles = 20_000

// linkedParts returns the directories outside home that links in home lead to.
func linkedParts(home string) []string {
	var found []string
	left := maxJVMFiles
	// Unreadable files are skipped. If the JVM needs them, it fails with its own
	// message.
	_ = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil || within(home, target) {
			return nil
		}
		if st, err := os.Stat(target); err == nil && !st.IsDir() {
			target = filepath.Dir(target)
		}
		// A link to a file directly in /etc or /usr does not expose that whole directory;
		// operators can add it with chroot_env.
		if strings.Count(target, "/") > 1 && !slices.Contains(found, target) {
			found = append(found, target)
		}
		return nil
	})
	slices.Sort(found)
	var parts []string
	for _, dir := range found { // drop directories that are inside another one
		if !slices.ContainsFunc(parts, func(p string) bool { return within(p, dir) }) {
			parts = append(parts, dir)
		}
	}
	return parts
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// command returns the program to run: the JVM's own java if the one in PATH is a
// script that selects a JVM.
func (v *jvm) command() string {
	if own := filepath.Join(v.Home, "bin", "java"); executable(own) == nil {
		return own
	}
	return v.File.Path
}

// show adds the directories of the JVM that the task does not see yet.
func (v *jvm) show(binds []isolation.Bind) []isolation.Bind {
	for _, dir := range append([]string{v.Home}, v.Parts...) {
		if !slices.ContainsFunc(binds, func(b isolation.Bind) bool { return b.Source == b.Target && within(b.Source, dir) }) {
			binds = append(binds, isolation.Bind{Source: dir, Target: dir})
		}
	}
	sortBinds(binds)
	return binds
}
