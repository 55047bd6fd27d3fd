// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
	"github.com/drover-project/drover/sdk/osthread"
)

// Identity is the user and the groups of a process, as the kernel has them.
type Identity struct {
	UID, GID int
	Groups   []int
}

// Changes reports whether the identity differs from this process's.
func (i Identity) Changes() bool { return i.UID != os.Geteuid() }

// Identify resolves the user and the groups of the rights. own is the id of the plugin
// alone. Groups that the machine lacks are left out. FailedPrecondition: the agent is
// not root and the operator asks for another user.
func (r *Rights) Identify(own int) (Identity, error) {
	id := Identity{UID: os.Geteuid(), GID: os.Getegid()}
	switch {
	case r.OwnUser && os.Geteuid() == 0:
		id.UID, id.GID = own, own
	case r.User != "":
		var err error
		if id.UID, id.GID, err = lookup(r.User); err != nil {
			return id, err
		}
	}
	if os.Geteuid() != 0 {
		if id.Changes() {
			return id, errdefs.FailedPreconditionf("the plugin is to run as user %q, and only an agent that is root can do that; run the agent as root, or remove user from the plugin's block", r.User)
		}
		return id, nil
	}
	for _, name := range r.Groups {
		g, err := user.LookupGroup(name)
		if err != nil {
			continue
		}
		if gid, err := strconv.Atoi(g.Gid); err == nil {
			id.Groups = append(id.Groups, gid)
		}
	}
	return id, nil
}

func lookup(name string) (uid, gid int, err error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 {
		return n, n, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, errdefs.FailedPreconditionf("the plugin is to run as user %q, and this machine has none of that name; create it, or change user in the plugin's block", name)
	}
	uid, err = strconv.Atoi(u.Uid)
	if err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return 0, 0, errdefs.FailedPreconditionf("the ids of user %q are not numbers: %w", name, err)
	}
	return uid, gid, nil
}

// Start starts cmd with the rights. In Linux these rights belong to threads and are
// inherited by the processes that they start. So Start uses a thread that has only these
// rights and ends afterwards. born is an error if the command is not in the cgroup of
// birth; nil if it is, or if birth is nil.
func Start(cmd *exec.Cmd, r *Rights, id Identity, birth *Birth) (born, err error) {
	err = osthread.Do(func() error {
		born = birth.enter(cmd)
		defer birth.leave()
		if err := r.enter(); err != nil {
			return err
		}
		r.become(cmd, id)
		if birth == nil || birth.unified == nil || !r.RestrictSyscalls || !hasSeccomp() {
			return r.startRestricted(cmd)
		}
		// A process is born in a cgroup of version 2 by clone3, which the filter refuses. So the
		// process sets the filter itself, before it becomes the plugin.
		err := errNoNewPrivileges
		if r.NoNewPrivileges {
			err = r.startFiltered(cmd)
		}
		if errors.Is(err, errNoNewPrivileges) || errors.Is(err, isolation.ErrNoPrograms) {
			born = cannot(birth.name, err)
			cmd.SysProcAttr.UseCgroupFD = false
			return r.startRestricted(cmd)
		}
		return err
	})
	return born, err
}

// errNoNewPrivileges says why a process cannot set a filter itself.
var errNoNewPrivileges = errors.New("a process that may gain privileges cannot restrict itself")

// startRestricted starts a command from a thread that has the filter of system calls.
func (r *Rights) startRestricted(cmd *exec.Cmd) error {
	if r.RestrictSyscalls || !r.Network {
		if err := r.restrictSyscalls(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
			return fmt.Errorf("restrict the system calls of a plugin: %w", err)
		}
	}
	return cmd.Start()
}

// startFiltered starts a command that sets the filter itself.
func (r *Rights) startFiltered(cmd *exec.Cmd) error {
	code, err := r.assembled()
	if err != nil {
		return err
	}
	return isolation.StartFiltered(cmd, code)
}

// Birth is the cgroup in which a process is born, so that nothing that it forks is ever
// outside of its limits.
type Birth struct {
	name    string
	dirs    prepared
	unified *os.File
}

// Birth creates a cgroup with the name and the limits for a process that is to be started.
// It returns nil if there are no limits. FailedPrecondition: the limits cannot be set here.
func (g *Groups) Birth(name string, limits Limits) (*Birth, error) {
	dirs, err := g.prepare(name, limits)
	if err != nil || len(dirs.all()) == 0 {
		return nil, err
	}
	return &Birth{name: name, dirs: dirs}, nil
}

// enter moves the calling thread (version 1, where a child is born in the groups of the
// thread that forks) and has the command born in the group (version 2).
func (b *Birth) enter(cmd *exec.Cmd) (err error) {
	if b == nil {
		return nil
	}
	for _, dir := range b.dirs.v1 {
		if err := os.WriteFile(filepath.Join(dir, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
			return cannot(b.name, err)
		}
	}
	if b.dirs.v2 == "" {
		return nil
	}
	if !bornIntoGroups() {
		return cannot(b.name, errors.ErrUnsupported)
	}
	if b.unified, err = os.Open(b.dirs.v2); err != nil {
		return cannot(b.name, err)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(b.unified.Fd())
	return nil
}

// bornIntoGroups reports whether the kernel has CLONE_INTO_CGROUP: from Linux 5.7.
var bornIntoGroups = sync.OnceValue(func() bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 7
})

func (b *Birth) leave() {
	if b != nil && b.unified != nil {
		_ = b.unified.Close()
	}
}

// become sets the user of the command, and the capabilities that a user other than root
// keeps.
func (r *Rights) become(cmd *exec.Cmd, id Identity) {
	if os.Geteuid() != 0 {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if !id.Changes() && id.Groups == nil {
		return
	}
	groups := make([]uint32, 0, len(id.Groups))
	for _, g := range id.Groups {
		groups = append(groups, uint32(g))
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(id.UID), Gid: uint32(id.GID), Groups: groups}
	if id.UID == 0 || r.AllCapabilities() {
		return
	}
	for _, name := range r.Capabilities {
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, uintptr(capabilityNumber(name)))
	}
}

// enter reduces the calling thread to the rights, except for system calls. It skips rights
// that the kernel cannot enforce: see Lacking.
func (r *Rights) enter() error {
	if err := r.boundCapabilities(); err != nil {
		return err
	}
	if r.NoNewPrivileges || os.Geteuid() != 0 && (r.RestrictFiles || r.RestrictSyscalls || !r.Network) {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("forbid new privileges: %w", err)
		}
	}
	if r.RestrictFiles {
		if err := r.restrictFiles(); err != nil {
			return fmt.Errorf("restrict the files of a plugin with Landlock: %w", err)
		}
	}
	return nil
}

// boundCapabilities limits the capabilities that a program of root may get.
func (r *Rights) boundCapabilities() error {
	if os.Geteuid() != 0 || r.AllCapabilities() {
		return nil
	}
	keep := map[int]bool{}
	for _, name := range r.Capabilities {
		keep[capabilityNumber(name)] = true
	}
	for c := 0; c < 64; c++ {
		if keep[c] {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // past the last one
		}
		if err != nil {
			return fmt.Errorf("drop the capability %d: %w", c, err)
		}
	}
	return nil
}

// Lacking lists the restrictions that this machine cannot enforce, and why.
func (r *Rights) Lacking() []string {
	var out []string
	if r.RestrictFiles && landlockVersion() == 0 {
		out = append(out, "its files are not restricted: the kernel has no Landlock (from Linux 5.13, and in its lsm= list)")
	}
	if (r.RestrictSyscalls || !r.Network) && !hasSeccomp() {
		out = append(out, "its system calls and its network are not restricted: the kernel has no seccomp filters, or not for this processor")
	}
	if os.Geteuid() != 0 && (r.OwnUser || !r.AllCapabilities()) {
		out = append(out, "it runs as the agent's user: only an agent that is root can give it another one and take capabilities away")
	}
	return out
}

// LimitFiles limits the open files of a process that was just started; 0 means no limit
// of ours.
func LimitFiles(pid, files int) error {
	if files == 0 {
		return nil
	}
	limit := unix.Rlimit{Cur: uint64(files), Max: uint64(files)}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("its open files are not limited, for which the agent needs CAP_SYS_RESOURCE: %w", err)
	}
	return nil
}
