// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package scaffold_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/scaffold"
)

func TestADriverInPythonIsTheExampleUnderItsOwnName(t *testing.T) {
	dir, files, err := scaffold.Write(scaffold.Options{Name: "my-py", Kind: "driver", Lang: "python", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	want := ".gitignore Makefile README.md driver/__main__.py driver/process.py driver/runner.py driver/service.py example.nomad.hcl proto/driver/v1/driver.proto proto/plugin/v1/plugin.proto"
	if got := strings.Join(files, " "); got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
	for _, f := range files {
		body, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		text := string(body)
		for _, rest := range []string{"driver-python", "../../..", `driver = "python"`, "python-example"} {
			if strings.Contains(text, rest) {
				t.Errorf("%s still says %q", f, rest)
			}
		}
		if !strings.HasPrefix(f, "proto/") && strings.Contains(text, "SPDX") {
			t.Errorf("%s has Drover's licence", f)
		}
	}
}

func TestADriverInPythonBuilds(t *testing.T) {
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import grpc.aio, grpc_tools").CombinedOutput(); err != nil {
		t.Skipf("needs make and the Debian packages python3-grpcio, python3-protobuf and python3-grpc-tools: %v\n%s", err, out)
	}
	dir, _, err := scaffold.Write(scaffold.Options{Name: "my-py", Kind: "driver", Lang: "python", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "make", "-C", dir, "build").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "build", "my-py")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "my-py is a plugin of drover") {
		t.Errorf("started by hand it says %q, %v", out, err)
	}
}
