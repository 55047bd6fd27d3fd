// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

// withDevices are the answers of a cluster whose node has two devices. A running task
// holds one of them, and one that no plugin reports any more.
func withDevices(t *testing.T) map[string]string {
	t.Helper()
	answers := world()
	const groups = `[{"Vendor":"acme","Type":"gpu","Name":"x1","Instances":[
	  {"ID":"d1","Healthy":true,"HealthDescription":""},{"ID":"d2","Healthy":false,"HealthDescription":"too hot"}]}]`
	answers["GET /v1/node/"+nodeID] = `{"ID":"` + nodeID + `","Name":"n1","Status":"ready","NodeResources":{"Devices":` + groups + `}}`
	answers["GET /v1/node/"+nodeID+"/allocations"] = `[` +
		`{"ID":"bbbbbbbb-0000-0000-0000-000000000000","NodeID":"` + nodeID + `","JobID":"web","TaskGroup":"g","ClientStatus":"running","AllocatedResources":{"Tasks":{"train":{"Devices":[{"Vendor":"acme","Type":"gpu","Name":"x1","DeviceIDs":["d2","gone"]}]}}}},` +
		`{"ID":"cccccccc-0000-0000-0000-000000000000","NodeID":"` + nodeID + `","JobID":"web","TaskGroup":"g","ClientStatus":"complete","AllocatedResources":{"Tasks":{"train":{"Devices":[{"Vendor":"acme","Type":"gpu","Name":"x1","DeviceIDs":["d1"]}]}}}}]`
	answers["GET /v1/agent/plugin/gpus"] = `{"Name":"gpus","Version":"1","State":"running","Devices":["gpu"],"DeviceGroups":` + groups + `,
	  "Warnings":["driver \"x\" is served by plugin \"other\" already; remove or disable one of the two plugins"],
	  "Bad":[{"Digest":"sha256:aa","Why":"no handshake","At":"2026-01-02T03:04:05Z"}],"Stacks":"/var/lib/drover/stacks/gpus.txt"}`
	return answers
}

func TestANodeShowsItsDevicesTheirHealthAndWhoHoldsThem(t *testing.T) {
	r := newFake(t, withDevices(t)).at(t, nil, "node", "status", "aaaa")
	const want = `Devices
Device             Health     Message  Held By
acme/gpu/x1[d1]    healthy    <none>   <none>
acme/gpu/x1[d2]    unhealthy  too hot  alloc bbbbbbbb, task train
acme/gpu/x1[gone]  missing    <none>   alloc bbbbbbbb, task train
`
	if r.code != 0 || !strings.Contains(r.out, want) {
		t.Errorf("exit code %d: %s\n%s", r.code, r.err, r.out)
	}
}

func TestAPluginShowsItsDevicesWhatIsLeftOutAndWhenVersionsFailed(t *testing.T) {
	r := newFake(t, withDevices(t)).at(t, nil, "plugin", "status", "-node", "aaaa", "gpus")
	for _, want := range []string{
		"acme/gpu/x1[d2]  unhealthy  too hot  alloc bbbbbbbb, task train\n",
		"Left out\ndriver \"x\" is served by plugin \"other\" already; remove or disable one of the two plugins\n",
		"Versions that failed\nsha256:aa, 2026-01-02T03:04:05Z: no handshake\n",
		"Stacks\nThe process wrote the stacks of its goroutines when it received SIGQUIT: /var/lib/drover/stacks/gpus.txt\n",
	} {
		if r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("no %q; exit code %d: %s\n%s", want, r.code, r.err, r.out)
		}
	}
	if strings.Contains(r.out, "gone") {
		t.Errorf("a device of another plugin is shown:\n%s", r.out)
	}
}

func TestAnAllocShowsTheDevicesOfItsTasks(t *testing.T) {
	answers := withDevices(t)
	const id = "bbbbbbbb-0000-0000-0000-000000000000"
	answers["GET /v1/allocations"] = `[{"ID":"` + id + `"}]`
	answers["GET /v1/allocation/"+id] = `{"ID":"` + id + `","NodeID":"` + nodeID + `","ClientStatus":"pending","TaskStates":{"train":{"State":"pending"}},
	  "AllocatedResources":{"Shared":{},"Tasks":{"train":{"Cpu":{},"Memory":{},"Devices":[{"Vendor":"acme","Type":"gpu","Name":"x1","DeviceIDs":["d2"]}]}}}}`
	r := newFake(t, answers).at(t, nil, "alloc", "status", id)
	const want = "Task Devices:\nDevice           Health     Message\nacme/gpu/x1[d2]  unhealthy  too hot\n"
	if r.code != 0 || !strings.Contains(r.out, want) {
		t.Errorf("exit code %d: %s\n%s", r.code, r.err, r.out)
	}
}
