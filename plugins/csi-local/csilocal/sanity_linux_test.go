// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drover-project/drover/plugins/csi-local/csilocal"
)

// needs skips a test where the machine lacks what volumes need.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("no loop devices: %v", err)
	}
	for _, name := range append(programs, "mount") {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed: %v", name, err)
		}
	}
}

// serve runs a driver on a socket until the test ends.
func serve(t *testing.T, cfg csilocal.Config) (socket string) {
	t.Helper()
	d, err := csilocal.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(t.TempDir(), "csi.sock")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Serve(ctx, "unix://"+socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		d.Close()
	})
	return socket
}

// kindEnv is the kind of volume that a child of TestSanity tests: the suite can run once in a
// process.
const kindEnv = "DROVER_SANITY_KIND"

var kinds = map[string]func(*sanity.TestConfig){
	"ext4": func(*sanity.TestConfig) {},
	"xfs": func(c *sanity.TestConfig) {
		c.TestVolumeParameters = map[string]string{"fs_type": "xfs"}
		c.TestVolumeSize, c.TestVolumeExpandSize = 310<<20, 400<<20
	},
	"directory": func(c *sanity.TestConfig) { c.TestVolumeParameters = map[string]string{"kind": "directory"} },
	"block":     func(c *sanity.TestConfig) { c.TestVolumeAccessType = "block" },
}

// TestSanity is the suite of the Kubernetes project for drivers, all of it, for each kind of
// volume.
func TestSanity(t *testing.T) {
	needs(t, "mkfs.ext4", "resize2fs", "mkfs.xfs", "xfs_growfs")
	if kind := os.Getenv(kindEnv); kind != "" {
		check(t, kinds[kind])
		return
	}
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSanity$", "-test.v")
			if kind == "ext4" && !csilocal.MayGrow() {
				t.Log("this process has no CAP_SYS_RESOURCE, so that a mounted ext4 cannot grow: one rule is left out")
				cmd.Args = append(cmd.Args, "-ginkgo.skip=should work if node-expand is called after node-publish")
			}
			cmd.Env = append(os.Environ(), kindEnv+"="+kind)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", regexp.MustCompile(`Ran [0-9]+ of.*|[0-9]+ Passed.*`).FindAll(out, -1))
		})
	}
}

func check(t *testing.T, set func(*sanity.TestConfig)) {
	dir := t.TempDir()
	cfg := sanity.NewTestConfig()
	socket := serve(t, csilocal.Config{Dir: filepath.Join(dir, "data"), NodeID: "n1"})
	cfg.TargetPath, cfg.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	cfg.TestVolumeSize, cfg.TestVolumeExpandSize = 16<<20, 32<<20
	cfg.IdempotentCount = 3
	set(&cfg)
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	// The suite connects by waiting for a change of the connection's state, and fails after a
	// minute if the connection was ready before it began to wait. A connection to the same
	// address, here none, is used as it is.
	suite := sanity.GinkgoTest(&cfg)
	suite.Conn = conn
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "CSI Driver Test Suite")
	suite.Finalize()
}
