// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// journal stores the supervisor's records of its tasks in a directory that only its
// user can access. It must survive the death of processes but not a reboot. So
// nothing is synced, and every record contains the boot id.
//
//	tasks/KEY.spec   the spec, written before the process is started; of its secrets
//	                 only the names
//	tasks/KEY.run    pid and start time, written while the process waits at its gate;
//	                 later the exit
//	tasks/KEY.start  while the task is being started: whether it passed its gate, see
//	                 isolation.Began
//	pids/PID-START   empty while the task runs; the keeper writes the exit of a task
//	                 here that it had to reap
//	fifo/KEY.{1,2}   the task's stdout and stderr
type journal struct{ dir string }

// record is the content of KEY.run.
type record struct {
	Boot      string    `json:"boot"`
	PID       int       `json:"pid"`
	Start     uint64    `json:"start"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Cgroup    string    `json:"cgroup,omitempty"`
	Group     string    `json:"group,omitempty"`
	Init      int       `json:"init,omitempty"`
	InitStart uint64    `json:"init_start,omitempty"`
	Exit      *Exit     `json:"exit,omitempty"`
	Dropped   uint64    `json:"dropped,omitempty"`
}

func openJournal(dir string) (journal, error) {
	for _, sub := range []string{"", "tasks", "pids", "fifo"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return journal{}, fmt.Errorf("make the supervisor's directory: %w", err)
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return journal{}, fmt.Errorf("check the supervisor's directory %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return journal{}, fmt.Errorf("check the supervisor's directory %s: it must be a directory of user %d with mode 0700; remove it or name another", dir, os.Geteuid())
	}
	// With links resolved, as in the paths that the kernel shows for a process's files.
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return journal{}, fmt.Errorf("resolve the supervisor's directory: %w", err)
	}
	if real, err = filepath.Abs(real); err != nil {
		return journal{}, fmt.Errorf("resolve the supervisor's directory: %w", err)
	}
	return journal{dir: real}, nil
}

// key returns the name of a task's files and cgroup. It is a hash, because ids may
// be long and contain slashes, and because two supervisors on a machine may have
// tasks with the same id.
func (j journal) key(id string) string {
	sum := sha256.Sum256([]byte(j.dir + "\x00" + id))
	return hex.EncodeToString(sum[:12])
}

func (j journal) spec(key string) string { return filepath.Join(j.dir, "tasks", key+".spec") }
func (j journal) run(key string) string  { return filepath.Join(j.dir, "tasks", key+".run") }
func (j journal) report(key string) string {
	return filepath.Join(j.dir, "tasks", key+".start")
}
func (j journal) fifo(key string, n int) string {
	return filepath.Join(j.dir, "fifo", key+"."+strconv.Itoa(n))
}

func (j journal) marker(pid int, start uint64) string {
	return filepath.Join(j.dir, "pids", fmt.Sprintf("%d-%d", pid, start))
}

// writeJSON replaces a file atomically, so that readers never see a partial file.
func writeJSON(path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return writeWhole(path, body)
}

// writeSpec writes a spec without the values of its secrets.
func (j journal) writeSpec(key string, spec *Spec) error {
	out := *spec
	out.Secrets = make([]string, 0, len(spec.Secrets))
	for _, kv := range spec.Secrets {
		name, _, _ := strings.Cut(kv, "=")
		out.Secrets = append(out.Secrets, name)
	}
	return writeJSON(j.spec(key), &out)
}

// secretsOf returns those variables, as NAME=VALUE, with which a process was started.
func secretsOf(pid int, names []string) []string {
	if len(names) == 0 {
		return nil
	}
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil // the process has ended, or hides its environment
	}
	var out []string
	for kv := range strings.SplitSeq(string(raw), "\x00") {
		if name, _, ok := strings.Cut(kv, "="); ok && slices.Contains(names, name) {
			out = append(out, kv)
		}
	}
	return out
}

func writeWhole(path string, body []byte) error {
	if err := os.WriteFile(path+".new", body, 0o600); err != nil {
		return fmt.Errorf("write the supervisor's journal: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the supervisor's journal: %w", err)
	}
	return nil
}

func readJSON(path string, v any) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the supervisor's journal: %w", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("read the supervisor's journal: %s: %w", path, err)
	}
	return nil
}

// forget removes all files of a task. Missing files are ignored. Files that cannot
// be removed are removed by the next supervisor.
func (j journal) forget(key string, pid int, start uint64) {
	for _, path := range []string{j.report(key), j.run(key), j.fifo(key, 1), j.fifo(key, 2), j.spec(key)} {
		_ = os.Remove(path)
	}
	if pid != 0 {
		_ = os.Remove(j.marker(pid, start))
	}
}

// markedExit reads the exit that the keeper has written for a task.
func (j journal) markedExit(pid int, start uint64) (Exit, bool) {
	var e Exit
	if err := readJSON(j.marker(pid, start), &e); err != nil {
		return Exit{}, false // empty or absent: the keeper has not reaped it
	}
	return e, true
}

// HasTasks reports whether the supervisor of dir has tasks, running or ended, by
// reading its journal. It does not start a supervisor.
func HasTasks(dir string) (bool, error) {
	keys, err := journal{dir: dir}.keys()
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return len(keys) > 0, err
}

// keys lists the keys of the tasks that have a spec.
func (j journal) keys() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(j.dir, "tasks"))
	if err != nil {
		return nil, fmt.Errorf("list the supervisor's journal: %w", err)
	}
	var keys []string
	for _, e := range entries {
		if key, ok := strings.CutSuffix(e.Name(), ".spec"); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
