// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// probeJar returns the jar of the driver's own tests.
func probeJar(t *testing.T) []byte {
	t.Helper()
	class, err := os.ReadFile("../../plugins/driver-exec/driverexec/testdata/java/Probe.class")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	jar := zip.NewWriter(&b)
	for name, body := range map[string]string{"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\nMain-Class: Probe\n", "Probe.class": string(class)} {
		w, err := jar.Create(name)
		if err == nil {
			_, err = w.Write([]byte(body))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := jar.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAJarIsFetchedRunsIsolatedAndLivesOverAKillOfThePlugin(t *testing.T) {
	if _, err := exec.LookPath("java"); err != nil {
		t.Skipf("no JVM: %v (apt-get install default-jre-headless)", err)
	}
	body := probeJar(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	defer web.Close()
	a := newAgent(t)
	harness.BuildFetcher(t)
	a.withExec()
	java := func(id, kind, args, options string) string {
		return fmt.Sprintf(`job %q {
  type = %q
  constraint {
    attribute = "${attr.driver.java.version}"
    operator  = "version"
    value     = ">= 11"
  }
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule { attempts = 0 }
    task "t" {
      driver = "java"
      artifact {
        source  = "%s/probe.jar"
        options { archive = "false" }
      }
      config {
        jar_path    = "local/probe.jar"
        args        = [%s]
        jvm_options = ["-XX:+UseSerialGC"%s]
      }
      resources {
        cpu    = 50
        memory = 128
      }
    }
  }
}`, id, kind, web.URL, args, options)
	}
	a.Run(java("show", "batch", `"show", "${NOMAD_JOB_NAME}"`, ""))
	done := a.Await("show", model.AllocClientStatusComplete, 1)
	if out, err := os.ReadFile(a.Path(done[0].ID, "alloc/logs/t.stdout.0")); err != nil || !strings.Contains(string(out), "args=[show, show]\nprobe=null\ncwd=/\nuser=nobody\n") {
		t.Errorf("the task wrote %q, %v", out, err)
	}
	a.Run(java("hog", "batch", `"hog"`, `, "-Xmx1g"`))
	for _, x := range a.Await("hog", model.AllocClientStatusFailed, 1) {
		if says := strings.Join(messages(x.TaskStates["t"]), "; "); !strings.Contains(says, `Exit Code: 137, Signal: 9, Exit Message: "OOM Killed"`) {
			t.Errorf("a task out of memory: %s", says)
		}
	}
	a.Run(java("serve", "service", `"serve"`, ""))
	serve := a.Await("serve", model.AllocClientStatusRunning, 1)
	log := a.Path(serve[0].ID, "alloc/logs/t.stdout.0")
	a.Eventually(15*time.Second, "the program is up", func() bool {
		out, err := os.ReadFile(log)
		return err == nil && string(out) == "up\n"
	})
	victim := a.Child()
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.Eventually(15*time.Second, "another plugin is in its place", func() bool {
		now := a.Child()
		return now != 0 && now != victim
	})
	a.Eventually(15*time.Second, "commands run in the old task", func() bool {
		out, code := a.CLI("alloc", "exec", "-i=false", "-t=false", serve[0].ID, "cat", "/proc/1/comm")
		return code == 0 && out == "drover-init\n"
	})
	a.Must("job", "stop", "-detach", "serve")
	x := a.Await("serve", model.AllocClientStatusComplete, 1)
	if out, err := os.ReadFile(log); err != nil || string(out) != "up\nbye\n" || len(x) != 1 || x[0].TaskStates["t"].Restarts != 0 {
		t.Errorf("the program wrote %q, %v; %+v", out, err, x)
	}
}

func messages(s *model.TaskState) []string {
	var out []string
	for _, e := range s.Events {
		out = append(out, e.DisplayMessage)
	}
	return out
}
