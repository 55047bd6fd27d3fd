// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

// The CSI driver of Kubernetes' own end-to-end tests. It is the only driver by others that the
// module proxy gives out here and that needs no cloud. Its module replaces others of Kubernetes
// by folders, which a module that uses it must replace again.
const kubernetesModule, kubernetesVersion, kubernetesPartsVersion = "k8s.io/kubernetes", "v1.36.3", "v0.36.3"

// kubernetesMain starts the driver. The driver leaves it to its caller how a directory comes
// to a path, and here it is mounted.
const kubernetesMain = `package main

import (
	"flag"
	"log"
	"net"
	"os"
	"strings"
	"syscall"

	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

type mounts struct {
	service.OSDirIO
	data string
}

func (m mounts) Mkdir(path string) error {
	if err := m.OSDirIO.Mkdir(path); err != nil {
		return err
	}
	return syscall.Mount(m.data, path, "", syscall.MS_BIND, "")
}

func (m mounts) RemoveAll(path string) error {
	if err := syscall.Unmount(path, 0); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		return err
	}
	return m.OSDirIO.RemoveAll(path)
}

func main() {
	data := flag.String("data", "", "")
	flag.Parse()
	s := service.New(service.Config{
		DriverName: service.Name, AttachLimit: 2, NodeExpansionRequired: true, NodeVolumeConditionRequired: true,
		VolumeMountGroupRequired: true, EnableTopology: true, IO: mounts{data: *data},
	})
	socket := strings.TrimPrefix(os.Getenv("CSI_ENDPOINT"), "unix://")
	if err := os.RemoveAll(socket); err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	if err := driver.NewCSIDriver(&driver.CSIDriverServers{Controller: s, Identity: s, Node: s}).Start(l, nil); err != nil {
		log.Fatal(err)
	}
	select {}
}
`

// kubernetesDriver builds the driver in a module of its own. The test is skipped where the
// module proxy does not have it.
func kubernetesDriver(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "CGO_ENABLED=0", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/thirdparty\n\ngo 1.24\n")
	if out, err := run("mod", "download", kubernetesModule+"@"+kubernetesVersion); err != nil {
		t.Skipf("the module proxy does not give out %s: %s", kubernetesModule, out)
	}
	cache, err := run("env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	its, err := os.ReadFile(filepath.Join(cache, "cache/download", kubernetesModule, "@v", kubernetesVersion+".mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod := fmt.Sprintf("module example.com/thirdparty\n\ngo 1.24\n\nrequire %s %s\n\n", kubernetesModule, kubernetesVersion)
	for _, part := range regexp.MustCompile(`(?m)^\s(k8s\.io/\S+) v0\.0\.0`).FindAllStringSubmatch(string(its), -1) {
		mod += fmt.Sprintf("replace %s => %[1]s %s\n", part[1], kubernetesPartsVersion)
	}
	write("go.mod", mod)
	write("main.go", kubernetesMain)
	if out, err := run("list", "-deps", "."); err != nil {
		t.Skipf("the module proxy does not give out what %s needs: %s", kubernetesModule, out)
	}
	if out, err := run("build", "-o", "driver", "."); ctx.Err() != nil {
		t.Skip("this machine does not build the driver in 8 minutes")
	} else if err != nil {
		t.Fatalf("build the driver: %v\n%s", err, out)
	}
	return filepath.Join(dir, "driver")
}

// TestTheDriverOfKubernetesRunsUnmodified lets a CSI driver by others make, attach, grow, copy
// and remove a volume. It knows nothing of before after a restart.
func TestTheDriverOfKubernetesRunsUnmodified(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a driver")
	}
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	driver := kubernetesDriver(t)
	a := newAgent(t).withCSI()
	a.Plugin("driver-exec", fmt.Sprintf("exec %s/driver-exec \"$@\"", harness.Bin()))
	a.start()
	data := filepath.Join(a.Dir, "disk")
	if err := errors.Join(os.Mkdir(data, 0o777), os.Chmod(data, 0o777)); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	a.Run(strings.Replace(driverJob("disk", "org.example.disk", driver, []string{"-data", data}, "2m"), "attempts = 0", "attempts = 3\n      delay = \"1s\"", 1))
	healthy := func(what string) {
		t.Helper()
		a.Eventually(2*harness.Patience, what, func() bool {
			r := a.storage("org.example.disk")
			return r != nil && r.Healthy
		})
	}
	healthy("the node reports the driver")
	if r := a.storage("org.example.disk"); r.Provider != "io.kubernetes.storage.mock" || r.NodeInfo.MaxVolumes != 2 || r.NodeInfo.AccessibleTopology == nil {
		t.Errorf("it reports %+v, %+v", r, r.NodeInfo)
	}
	spec := a.Write("volume.hcl", 0o600, databaseVolume)
	a.Must("volume", "create", spec)

	reads := func(job, want string) {
		t.Helper()
		a.Await(job, "running", 1)
		a.Eventually(2*harness.Patience, job+" reads "+want, func() bool {
			out, _ := a.CLI("alloc", "logs", "-job", job)
			return strings.Contains(out, want)
		})
	}
	a.Run(writerJob("first"))
	reads("first", "line of first")
	a.Write("volume.hcl", 0o600, strings.NewReplacer("20MiB", "50MiB", "40MiB", "50MiB").Replace(databaseVolume))
	a.Must("volume", "create", spec)
	if out := a.Must("volume", "status", "-type", "csi", "database"); !strings.Contains(out, "50 MiB") || !strings.Contains(out, "attached") {
		t.Errorf("after it has grown, its status is %s", out)
	}
	a.Must("volume", "snapshot", "create", "database", "nightly")
	list := a.Must("volume", "snapshot", "list", "-plugin", "org.example.disk", "-per-page", "2")
	if !strings.Contains(list, "-page-token") {
		t.Errorf("of four snapshots two are shown, and not how to see the others: %s", list)
	}
	a.Kill()
	a.start()
	healthy("after a kill of the agent, the node reports the driver")
	a.Must("job", "stop", "-purge", "first")
	a.Run(writerJob("second"))
	reads("second", "line of first\nline of second")

	before := a.Processes(driver)
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	a.Eventually(2*harness.Patience, "the driver was started again", func() bool {
		now := a.Processes(driver)
		return len(now) > 0 && !slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) })
	})
	healthy("after a kill of the driver, the node reports it")
	a.Must("job", "stop", "-purge", "second")
	a.Eventually(2*harness.Patience, "a volume that the driver has forgotten is given back and deleted", func() bool {
		_, code := a.CLI("volume", "delete", "database")
		return code == 0
	})
	a.Must("job", "stop", "-purge", "disk")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, a.Dir) && strings.Contains(line, "/csi/node/") && strings.Contains(line, "per-alloc") {
			t.Errorf("left mounted: %s", line)
		}
	}
}
