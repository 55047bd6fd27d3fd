// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

func TestAVerboseNodeShowsItsPluginsAndWhatHappenedToThem(t *testing.T) {
	answers := world()
	answers["GET /v1/node/"+nodeID] = `{"ID":"` + nodeID + `","Name":"n1","Status":"down",
	  "Plugins":{
	    "stats-host":{"Version":"0.1.0","State":"running","Collectors":["host"]},
	    "driver-exec":{"Version":"1.0.0","State":"running","Drivers":["exec","raw_exec"]},
	    "device-gpu":{"Version":"2.1.0","State":"crash loop","Restarts":12,"Devices":["gpu"],"Error":"no library"}},
	  "Events":[{"Timestamp":"2026-01-02T03:04:05Z","Subsystem":"Plugin","Message":"Plugin \"device-gpu\" failed","Details":{"pid":"7","error":"no library"}}]}`
	f := newFake(t, answers)
	r := f.at(t, nil, "node", "status", "-verbose", "aaaa")
	if r.code != 0 || r.err != "" {
		t.Fatalf("exit code %d: %s", r.code, r.err)
	}
	const plugins = `Plugins
Name         Version  State       Restarts  Drivers        Devices  Collectors  Error
device-gpu   2.1.0    crash loop  12        <none>         gpu      <none>      no library
driver-exec  1.0.0    running     0         exec,raw_exec  <none>   <none>      <none>
stats-host   0.1.0    running     0         <none>         <none>   host        <none>
`
	if !strings.Contains(r.out, plugins) {
		t.Errorf("no plugins in\n%s", r.out)
	}
	if !strings.Contains(r.out, `Plugin     Plugin "device-gpu" failed  error: no library, pid: 7`) {
		t.Errorf("no event in\n%s", r.out)
	}
	if r := f.at(t, nil, "node", "status", "aaaa"); strings.Contains(r.out, "Plugins") {
		t.Errorf("plugins without -verbose:\n%s", r.out)
	}
}
