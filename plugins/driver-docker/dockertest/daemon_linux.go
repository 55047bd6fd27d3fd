// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Daemon is a dockerd for tests.
type Daemon struct {
	// EndContainers disables live-restore at the next Run, so that containers end with
	// the daemon instead of surviving its restart.
	EndContainers bool

	dir    string
	bridge string
	// containerd for dockerd. If dockerd started its own containerd, killing dockerd
	// would kill that too where no init process reaps orphans, as in many containers.
	shims  *exec.Cmd
	cmd    *exec.Cmd
	exited chan struct{}
	http   *http.Client
}

// BusyBox is the name of the image that every Daemon has.
const BusyBox = "busybox:drover"

const (
	startLimit = 2 * time.Minute
	stopLimit  = time.Minute
)

// Start starts a daemon. The error says what is missing on this machine.
func Start() (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a private dockerd needs root")
	}
	for _, program := range []string{"dockerd", "containerd", "runc", "docker", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("no private dockerd: %w; install the packages docker.io and iproute2", err)
		}
	}
	image, err := NewImage("busybox")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "dvrdock") // the path of a socket must be short
	if err != nil {
		return nil, err
	}
	d := &Daemon{dir: dir}
	d.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
	}}}
	for _, step := range []func() error{d.makeBridge, d.runContainerd, d.Run} {
		if err := step(); err != nil {
			d.Remove()
			return nil, err
		}
	}
	archive, err := image.Archive(BusyBox)
	if err == nil {
		err = d.post("/images/load?quiet=1", archive)
	}
	if err != nil {
		d.Remove()
		return nil, err
	}
	return d, nil
}

// bridges counts the bridges of this process.
var bridges atomic.Int64

// makeBridge creates a network bridge, so that daemons of concurrent tests use
// different addresses. Creating the link by name also reserves the addresses against
// other processes.
func (d *Daemon) makeBridge() error {
	const networks, tries = 4000, 50
	var why error
	for range tries {
		n := (os.Getpid()*7 + int(bridges.Add(1))) % networks
		name := fmt.Sprintf("dvr%d", n)
		if why = ip("link", "add", "name", name, "type", "bridge"); why != nil {
			continue // another process has it
		}
		d.bridge = name
		if err := ip("addr", "add", fmt.Sprintf("10.%d.%d.1/24", 210+n/250, n%250), "dev", name); err != nil {
			return err
		}
		return ip("link", "set", name, "up")
	}
	return why
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("no private dockerd: ip %s: %s", strings.Join(args, " "), bytes.TrimSpace(out))
	}
	return nil
}

func (d *Daemon) socket() string { return filepath.Join(d.dir, "docker.sock") }

// Endpoint returns the daemon's address.
func (d *Daemon) Endpoint() string { return "unix://" + d.socket() }

const containerdConfig = "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"

func (d *Daemon) runContainerd() error {
	config := filepath.Join(d.dir, "containerd.toml")
	if err := os.WriteFile(config, []byte(containerdConfig), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(d.dir, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.shims = exec.Command("containerd", "--config", config, "--address", d.containerd(),
		"--root", filepath.Join(d.dir, "croot"), "--state", filepath.Join(d.dir, "c"), "--log-level", "warn")
	d.shims.Stdout, d.shims.Stderr = log, log
	d.shims.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.shims.Start(); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	deadline := time.Now().Add(startLimit)
	for {
		conn, err := net.Dial("unix", d.containerd())
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("containerd does not answer: %w", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (d *Daemon) containerd() string { return filepath.Join(d.dir, "containerd.sock") }

// Run starts the daemon's process and waits until it answers.
func (d *Daemon) Run() error {
	_ = os.Remove(filepath.Join(d.dir, "pid")) // left over by a killed daemon
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command("dockerd", "--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "x"),
		"--pidfile", filepath.Join(d.dir, "pid"), "--containerd", d.containerd(), "-H", d.Endpoint(), "--bridge", d.bridge, fmt.Sprintf("--live-restore=%t", !d.EndContainers),
		"--iptables=false", "--ip6tables=false", "--ip-masq=false", "--config-file", filepath.Join(d.dir, "none.json"))
	if err := os.WriteFile(filepath.Join(d.dir, "none.json"), []byte("{}"), 0o600); err != nil {
		return err
	}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	exited := make(chan struct{})
	d.exited = exited
	go func() {
		_ = d.cmd.Wait() // the process was killed
		close(exited)
	}()
	return d.awaitAnswer(exited)
}

func (d *Daemon) awaitAnswer(exited chan struct{}) error {
	deadline := time.Now().Add(startLimit)
	for {
		r, err := d.http.Get("http://docker/_ping")
		if err == nil {
			_ = r.Body.Close() // the body was only read
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-exited:
			return fmt.Errorf("dockerd cannot run here: %s", d.lastWords())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dockerd does not answer: %s", d.lastWords())
		}
	}
}

func (d *Daemon) lastWords() string {
	body, err := os.ReadFile(filepath.Join(d.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(body[max(0, len(body)-600):]))
}

// Signal sends a signal to the daemon's process, but not to its containers.
func (d *Daemon) Signal(s syscall.Signal) error { return d.cmd.Process.Signal(s) }

// Stop ends the daemon's process. Containers keep running.
func (d *Daemon) Stop() error {
	if err := d.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.exited:
		return nil
	case <-time.After(stopLimit):
		return errors.New("dockerd does not end")
	}
}

// Kill kills the daemon's process with SIGKILL.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	<-d.exited
	return err
}

func (d *Daemon) post(path string, body []byte) error {
	r, err := d.http.Post("http://docker"+path, "application/x-tar", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var said bytes.Buffer
	if _, err := said.ReadFrom(r.Body); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, r.Status, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// CLI runs a command of the docker CLI against this daemon.
func (d *Daemon) CLI(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+d.Endpoint())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// Remove kills the daemon and all its containers, and deletes its data.
func (d *Daemon) Remove() {
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.Signal(syscall.SIGCONT) // it may be stopped or gone
		if ids, err := d.CLI("ps", "-aq"); err == nil && ids != "" {
			_, _ = d.CLI(append([]string{"rm", "-f", "-v"}, strings.Fields(ids)...)...) // containers that remain are killed below
		}
		_ = d.Stop()                                          // if this fails the daemon is killed next
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) // including its containerd
		<-d.exited
	}
	if d.shims != nil && d.shims.Process != nil {
		_ = syscall.Kill(-d.shims.Process.Pid, syscall.SIGKILL) // no containers depend on it any more
		_ = d.shims.Wait()                                      // it was killed
	}
	d.killShims()
	if d.bridge != "" {
		_ = exec.Command("ip", "link", "del", d.bridge).Run() // it may not exist
	}
	d.unmount()
	_ = os.RemoveAll(d.dir) // files that cannot be removed stay in /tmp
}

// killShims kills the shims of containers that could not be removed, and all their
// descendants. A shim is the subreaper of its container's processes.
func (d *Daemon) killShims() {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(d.containerd()+"\x00")) {
			continue
		}
		pid := filepath.Base(dir)
		children, _ := os.ReadFile(filepath.Join(dir, "task", pid, "children")) // the process may have ended
		for _, one := range append(strings.Fields(string(children)), pid) {
			if n, err := strconv.Atoi(one); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL) // the process may have ended
			}
		}
	}
}

// unmount removes the mounts that a killed daemon left behind.
func (d *Daemon) unmount() {
	body, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(body), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if f := strings.Fields(lines[i]); len(f) > 1 && strings.HasPrefix(f[1], d.dir+"/") {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH) // mounts that cannot be removed stay
		}
	}
}
