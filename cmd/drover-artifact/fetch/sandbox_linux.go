// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"

	"github.com/drover-project/drover/core/agent/artifact/wire"
)

const (
	// Limits of this process and of each process that git starts; maxMemory is in bytes,
	// maxCPU in seconds.
	maxOpenFiles = 1024
	maxMemory    = 4 << 30
	maxCPU       = 6 * 3600
)

// Readable paths by what needs them. Paths that do not exist are skipped.
var (
	readFiles = []string{
		"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
		"/etc/passwd", "/etc/group", "/etc/localtime", "/etc/mime.types", "/dev/urandom", "/dev/random", "/dev/zero",
	}
	readDirs = []string{"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/usr/share/zoneinfo", "/run/systemd/resolve"}
	// git, hg and ssh need their programs and libraries.
	toolDirs  = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/etc/alternatives", "/etc/ssh", "/etc/mercurial", "/nix/store"}
	toolFiles = []string{"/etc/gitconfig", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.preload"}
)

// fileVariables are environment variables whose value is the path of a file to read.
// The agent's configuration decides whether they are passed on.
var fileVariables = []string{
	"SSL_CERT_FILE", "NETRC", "GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE",
	"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO",
}

// lockIn drops privileges and capabilities and, if isolation is requested and the
// kernel supports Landlock, access to all files but those listed here. It reports
// whether Landlock is in force.
func lockIn(req *wire.Request, tools bool) (bool, error) {
	unix.Umask(0o022)
	if err := limit(req.Limits); err != nil {
		return false, err
	}
	if err := dropCapabilities(); err != nil {
		return false, err
	}
	if _, _, errno := psx.Syscall6(syscall.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return false, fmt.Errorf("forbid new privileges: %w", errno)
	}
	if !req.Isolate {
		return false, nil
	}
	if abi, err := ll.LandlockGetABIVersion(); err != nil || abi < 1 {
		return false, nil
	}
	rules, err := rulesOf(req, tools)
	if err != nil {
		return false, err
	}
	// Files and signals share one ruleset, since a second ruleset would forbid moving
	// files between directories. The network is not restricted here: the guard does
	// that.
	all := landlock.Config{HandledAccessFS: landlock.V9.HandledAccessFS, Scoped: landlock.V9.Scoped}
	if err := all.BestEffort().Restrict(rules...); err != nil {
		return false, fmt.Errorf("restrict it with Landlock: %w", err)
	}
	return true, nil
}

func rulesOf(req *wire.Request, tools bool) ([]landlock.Rule, error) {
	const files = landlock.AccessFSSet(ll.AccessFSReadFile)
	const dirs = files | landlock.AccessFSSet(ll.AccessFSReadDir)
	rules := []landlock.Rule{
		landlock.RWDirs(req.Staging).WithRefer(),
		landlock.RWFiles("/dev/null").IgnoreIfMissing(),
		landlock.PathAccess(files, readFiles...).IgnoreIfMissing(),
		landlock.PathAccess(dirs, readDirs...).IgnoreIfMissing(),
	}
	for _, name := range fileVariables {
		if path := os.Getenv(name); reachable(path) {
			rules = append(rules, landlock.PathAccess(files, path))
		}
	}
	for path := range strings.SplitSeq(os.Getenv("SSL_CERT_DIR"), ":") {
		if reachable(path) {
			rules = append(rules, landlock.PathAccess(dirs, path))
		}
	}
	if tools {
		rules = append(rules, landlock.RODirs(toolDirs...).IgnoreIfMissing(), landlock.PathAccess(files, toolFiles...).IgnoreIfMissing())
	}
	for _, text := range req.ExtraPaths {
		p, err := parseExtraPath(text)
		if err != nil {
			return nil, err
		}
		if reachable(p.path) {
			rules = append(rules, landlock.PathAccess(p.access(), p.path))
		}
	}
	return rules, nil
}

// reachable reports whether path exists and this user can access it.
func reachable(path string) bool {
	if path == "" {
		return false
	}
	_, err := os.Stat(path)
	return err == nil
}

// access translates the letters of an extra path into Landlock rights.
func (p extraPath) access() landlock.AccessFSSet {
	var out uint64
	for _, letter := range p.mode {
		switch letter {
		case 'r':
			out |= ll.AccessFSReadFile
			if !p.file {
				out |= ll.AccessFSReadDir
			}
		case 'w':
			out |= ll.AccessFSWriteFile | ll.AccessFSTruncate
		case 'c':
			if !p.file {
				out |= ll.AccessFSMakeReg | ll.AccessFSMakeDir | ll.AccessFSMakeSym | ll.AccessFSRemoveFile | ll.AccessFSRemoveDir
			}
		case 'x':
			out |= ll.AccessFSExecute
		}
	}
	return landlock.AccessFSSet(out)
}

// limit sets the resource limits of this process and its children.
func limit(l wire.Limits) error {
	signal.Ignore(unix.SIGXFSZ) // writing past the file size limit then returns an error instead of killing the process
	largest := uint64(math.MaxInt64)
	if l.HTTPMaxBytes > 0 && l.UnpackMaxBytes > 0 {
		largest = uint64(l.HTTPMaxBytes) + uint64(l.UnpackMaxBytes)
	}
	for _, r := range []struct {
		what int
		max  uint64
	}{
		{unix.RLIMIT_FSIZE, largest}, {unix.RLIMIT_NOFILE, maxOpenFiles}, {unix.RLIMIT_DATA, maxMemory},
		{unix.RLIMIT_CPU, maxCPU}, {unix.RLIMIT_CORE, 0},
	} {
		var have unix.Rlimit
		if err := unix.Getrlimit(r.what, &have); err != nil {
			return fmt.Errorf("read a limit of the process: %w", err)
		}
		want := min(r.max, have.Max)
		if err := unix.Setrlimit(r.what, &unix.Rlimit{Cur: want, Max: want}); err != nil {
			return fmt.Errorf("limit the process: %w", err)
		}
	}
	return nil
}

// dropCapabilities drops all capabilities, including those that a setuid program
// would gain. This matters if the agent runs as root and could not start this
// process as user nobody.
func dropCapabilities() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP+64; c++ {
		_, _, errno := psx.Syscall6(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)
		if errno == unix.EINVAL || errno == unix.EPERM && c == 0 {
			break // past the last capability, or there are none to drop
		}
		if errno != 0 {
			return fmt.Errorf("drop the capability %d: %w", c, errno)
		}
	}
	return clearCapabilities()
}

// killOwnGroup kills this process's group if this process leads one.
func killOwnGroup() {
	if unix.Getpgrp() == os.Getpid() {
		if err := unix.Kill(0, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			os.Exit(3)
		}
	}
}
