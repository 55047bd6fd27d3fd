// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// dockerShop has a task for each lifecycle hook. The main task reports what it
// receives.
const dockerShop = `job "shop" {
  group "g" {
    restart {
      attempts = 5
      delay    = "500ms"
      interval = "1m"
    }
    task "before" {
      driver = "docker"
      lifecycle { hook = "prestart" }
      config {
        image   = "busybox:drover"
        command = "sh"
        args    = ["-c", "echo before > /alloc/data/before"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
    task "beside" {
      driver = "docker"
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
      config {
        image   = "busybox:drover"
        init    = true
        command = "sh"
        args    = ["-c", "cat /alloc/data/before; exec sleep 100000"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
    task "web" {
      driver         = "docker"
      user           = "nobody"
      kill_signal    = "SIGUSR2"
      kill_timeout   = "20s"
      shutdown_delay = "1s"
      artifact {
        source      = "%s/page"
        destination = "local/site"
      }
      template {
        destination   = "local/signalled"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        splay         = "0s"
        data          = "{{ with nomadVar \"nomad/jobs/shop/g/web\" }}{{ .signalled }}{{ end }}"
        wait {
          min = "100ms"
          max = "1s"
        }
      }
      template {
        destination = "local/restarted"
        change_mode = "restart"
        splay       = "0s"
        data        = "{{ with nomadVar \"nomad/jobs/shop/g/web\" }}{{ .restarted }}{{ end }}"
        wait {
          min = "100ms"
          max = "1s"
        }
      }
      config {
        image   = "busybox:drover"
        command = "sh"
        args    = ["-c", "trap 'echo got HUP $(cat /local/signalled)' HUP; trap 'echo got USR1' USR1; trap 'echo got USR2; exit 0' USR2; trap 'echo got TERM' TERM; echo up $(cat /local/restarted) $(id -un) $(cat /srv/page); while :; do usleep 20000; done"]
        volumes = ["local/site:/srv:ro"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}`

func TestWhatReachesATaskReachesItsContainer(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fetched") }))
	t.Cleanup(site.Close)
	a := newAgent(t)
	harness.BuildFetcher(t)
	d := a.dockerd()
	a.dockerAt(d, "")
	a.Must("var", "put", "nomad/jobs/shop/g/web", "signalled=one", "restarted=one")
	a.Run(fmt.Sprintf(dockerShop, site.URL))
	alloc := a.Await("shop", model.AllocClientStatusRunning, 1)[0].ID
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	follow := a.Command(ctx, "alloc", "logs", "-f", "-task", "web", alloc)
	pipe, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = follow.Wait() // it is killed
	}()
	lines := make(chan string, 100)
	go func() {
		for s := bufio.NewScanner(pipe); s.Scan(); {
			lines <- s.Text()
		}
	}()
	says := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Fatalf("the task said %q, want %q", got, want)
			}
		case <-time.After(harness.Patience):
			t.Fatalf("the task never said %q\n%s", want, a.Must("alloc", "status", alloc))
		}
	}
	// A line may be read before the agent has heard from the driver that the task runs.
	startedAgain := func() {
		t.Helper()
		says("got USR2")
		says("up two nobody fetched")
		a.Eventually(harness.Patience, "the agent knows that the task runs", func() bool {
			_, code := a.CLI("alloc", "exec", "-task", "web", alloc, "true")
			return code == 0
		})
	}
	container := func(task string) string {
		t.Helper()
		out, err := d.CLI("inspect", "-f", "{{.Id}} {{.State.Running}}", task+"-"+alloc)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	says("up one nobody fetched")
	a.Eventually(10*time.Second, "the task beside it sees what the one before left", func() bool {
		out, _ := a.CLI("alloc", "logs", "-task", "beside", alloc) // its log may not exist yet
		return out == "before\n"
	})
	beside, web := container("beside"), container("web")

	a.Must("alloc", "signal", "-s", "SIGUSR1", "-task", "web", alloc)
	says("got USR1")
	a.Must("var", "put", "-force", "nomad/jobs/shop/g/web", "signalled=two", "restarted=one")
	says("got HUP two")
	if now := container("web"); now != web {
		t.Errorf("a signal made another container: %s, was %s", now, web)
	}
	a.Must("var", "put", "-force", "nomad/jobs/shop/g/web", "signalled=two", "restarted=two")
	startedAgain()
	a.Must("alloc", "restart", "-task", "web", alloc)
	startedAgain()
	if now := container("beside"); now != beside {
		t.Errorf("the task beside was touched: %s, was %s", now, beside)
	}
	if out, err := a.Slow("job", "restart", "-yes", "-task", "web", "shop"); err != nil {
		t.Errorf("job restart: %v\n%s", err, out)
	}
	startedAgain()

	a.Eventually(15*time.Second, "alloc status shows what it uses", func() bool {
		out := a.Must("alloc", "status", "-stats", alloc)
		return strings.Contains(out, "Memory Stats") && strings.Contains(out, "CPU Stats")
	})
	for args, want := range map[string]string{"id -un": "nobody", "cat /srv/page": "fetched", "sh -c exit_3": ""} {
		argv := append([]string{"alloc", "exec", "-task", "web", alloc}, strings.Fields(strings.ReplaceAll(args, "_", " "))...)
		if want == "" {
			argv = []string{"alloc", "exec", "-task", "web", alloc, "sh", "-c", "echo oops >&2; exit 3"}
		}
		out, code := a.CLI(argv...)
		if want == "" && (code != 3 || strings.TrimSpace(out) != "oops") || want != "" && strings.TrimSpace(out) != want {
			t.Errorf("alloc exec %s: exit code %d, %q", args, code, out)
		}
	}
	begin := time.Now()
	a.Must("job", "stop", "-detach", "shop")
	says("got USR2")
	if took := time.Since(begin); took < time.Second {
		t.Errorf("it was told to end after %s, before its shutdown_delay", took)
	}
	a.Await("shop", model.AllocClientStatusComplete, 1)
	a.Eventually(20*time.Second, "no container is left", func() bool {
		out, err := d.CLI("ps", "-aq")
		return err == nil && out == ""
	})
	select {
	case got := <-lines:
		t.Errorf("then the task said %q", got)
	default:
	}
}
