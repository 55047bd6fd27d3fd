// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// allowed returns the cores on which a task that runs may run, as the kernel lists them.
func (a *agent) allowed(alloc string) string {
	out, _ := a.CLI("alloc", "exec", "-i=false", "-t=false", alloc, "/bin/sh", "-c", "grep Cpus_allowed_list: /proc/self/status")
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(out), "Cpus_allowed_list:"))
}

func TestReservedCoresAreLeftByTasksWithoutCores(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("two cores are needed")
	}
	a := newAgent(t).withExec()
	kinds := []string{"exec", "raw_exec"}
	shares := map[string]string{}
	for _, kind := range kinds {
		job := strings.Replace(a.isolated(kind, "service", 1, "exec sleep 1000"), `driver = "exec"`, `driver = "`+kind+`"`, 1)
		a.Run(job)
		shares[kind] = a.Await(kind, model.AllocClientStatusRunning, 1)[0].ID
	}
	free := a.allowed(shares["exec"])
	have := func(what string, ok func(cores string) bool) {
		t.Helper()
		for _, kind := range kinds {
			a.Eventually(30*time.Second, kind+" "+what, func() bool { return ok(a.allowed(shares[kind])) })
		}
	}
	a.Run(strings.Replace(a.isolated("own", "service", 1, "exec sleep 1000"), "cpu    = 10", "cores  = 1", 1))
	own := a.allowed(a.Await("own", model.AllocClientStatusRunning, 1)[0].ID)
	apart := func(cores string) bool { return cores != "" && cores != free && cores != own }
	have("leaves the core "+own, apart)
	a.Kill()
	a.Start()
	have("leaves the core after the agent was killed", apart)
	a.Must("job", "stop", "-detach", "own")
	have("runs on all cores again", func(cores string) bool { return cores == free })
}
