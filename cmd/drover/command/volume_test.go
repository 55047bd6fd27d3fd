// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
)

const (
	volID = "0f9145be-a32a-7727-4fac-118bf538fd33"
	vol   = `{"ID":"` + volID + `","Name":"data","Namespace":"prod","PluginID":"mkdir","NodeID":"ffda6ca0-b543-6a1b-993b-ecc6eeb75cad","NodePool":"default","HostPath":"/srv/x","CapacityBytes":1048576,` +
		`"RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}],"Parameters":{"mode":"0750"},"State":"STATE"}`
	claim = `[{"ID":"8ca6da13-dab3-7092-4f30-d3ab3ffc9dac","Namespace":"prod","JobID":"web","AllocName":"web.g[0]","AllocID":"932eb091-c3da-f012-1f87-692041f21530","VolumeID":"` + volID + `","VolumeName":"data"}]`
)

func TestTheExamplesOfVolumesAreSpecifications(t *testing.T) {
	for _, args := range [][]string{{"volume", "init"}, {"volume", "init", "-json", "-type", "host"}} {
		file := filepath.Join(t.TempDir(), "v")
		if r := execute(t, nil, append(args, file)...); r.code != 0 || !strings.Contains(r.out, file) {
			t.Fatalf("%v: %+v", args, r)
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jobspec.ParseHostVolume(src, file)
		if err != nil || v.Validate() != nil {
			t.Errorf("%v: %v, %v", args, err, v.Validate())
		}
	}
	for _, args := range [][]string{{"volume", "init", "-type", "csi"}, {"volume", "init", "-json", "-type", "csi"}} {
		file := filepath.Join(t.TempDir(), "v")
		if r := execute(t, nil, append(args, file)...); r.code != 0 {
			t.Fatalf("%v: %+v", args, r)
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, _, err := jobspec.ParseCSIVolume(src, file)
		if err != nil || v.Validate(false) != nil {
			t.Errorf("%v: %v, %v", args, err, v.Validate(false))
		}
	}
}

func TestAVolumeIsCreatedAndAwaited(t *testing.T) {
	f := newFake(t, map[string]string{"PUT /v1/volume/host/create": `{"Volume":` + vol + `,"Index":5}`})
	f.answers["GET /v1/volume/host/"+volID] = []string{strings.Replace(vol, "STATE", "pending", 1), strings.Replace(vol, "STATE", "ready", 1)}
	spec := "type = \"host\"\nname = \"data\"\nnamespace = \"prod\"\nplugin_id = \"mkdir\"\ncapability {\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}\n"
	r := f.at(t, with(spec, false), "volume", "create", "-")
	if r.code != 0 || !strings.Contains(r.out, "Created host volume data with ID "+volID) || !strings.Contains(r.out, `"0f9145be" is ready`) {
		t.Errorf("%+v", r)
	}
	if got := f.writes(); len(got) != 1 || !strings.Contains(got[0], "namespace=prod") || !strings.Contains(got[0], `"AccessMode":"single-node-writer"`) {
		t.Errorf("asked %q", got)
	}
	if r := f.at(t, with(spec+"colour = 1\n", false), "volume", "create", "-"); r.code != 1 || !strings.Contains(r.err, "-:9") {
		t.Errorf("an unknown key: %+v", r)
	}
	if r := f.at(t, with(spec, false), "volume", "create", "-namespace", "dev", "-"); r.code != 1 || !strings.Contains(r.err, "leave one out") {
		t.Errorf("another namespace: %+v", r)
	}
}

func TestVolumesAndClaimsAreShownAndDeleted(t *testing.T) {
	ready := strings.Replace(vol, "STATE", "ready", 1)
	f := newFake(t, map[string]string{
		"GET /v1/nodes?prefix=ffda": `[{"ID":"ffda6ca0-0000-0000-0000-000000000001","Name":"n"}]`, "GET /v1/nodes?prefix=1234": "[]",
		"GET /v1/volumes": "[" + ready + "]", "GET /v1/volume/host/" + volID: ready, "GET /v1/volumes/claims": claim,
		"DELETE /v1/volume/host/" + volID + "/delete": `{"Index":9}`, "DELETE /v1/volumes/claim/8ca6da13-dab3-7092-4f30-d3ab3ffc9dac": "",
	})
	for line, want := range map[string][]string{
		"volume status":                               {"0f9145be  data", "ready"},
		"volume status -type host -node ffda":         {"0f9145be  data"},
		"volume status 0f91":                          {"= " + volID, "1.0 MiB", "single-node-writer  file-system", "mode = 0750", "No allocations placed"},
		"volume status -json":                         {`"ID": "` + volID + `"`},
		"volume status -t {{range.}}{{.Name}}{{end}}": {"data"},
		"volume delete 0f91":                          {"Successfully deleted volume"},
		"volume claim list -job web":                  {"8ca6da13  prod", "web.g[0]", "0f9145be"},
		"volume claim delete -y 8ca6":                 {"Successfully deleted claim"},
	} {
		r := f.at(t, nil, strings.Fields(line)...)
		for _, w := range want {
			if r.code != 0 || !strings.Contains(r.out, w) {
				t.Errorf("%s: no %q in %+v", line, w, r)
			}
		}
	}
	for line, want := range map[string]string{
		"volume delete -secret a=b x": "has no secrets",
		"volume claim delete 8ca6":    "answer with -yes",
		"volume status -type tape":    "not a type of volumes",
		"volume status 1234":          "no volume with prefix",
		"volume status -node 1234":    "no node with prefix",
	} {
		if r := f.at(t, nil, strings.Fields(line)...); r.code != 1 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", line, r)
		}
	}
	for _, line := range f.writes() {
		if strings.Contains(line, "/delete") && !strings.Contains(line, "namespace=prod") {
			t.Errorf("a volume is deleted in another namespace than its own: %s", line)
		}
	}
}

const csiVol = `{"ID":"db","Name":"db","Namespace":"default","ExternalID":"x1","PluginID":"p","Capacity":1048576,"Schedulable":true,"MountOptions":{"FSType":"ext4","MountFlags":["[REDACTED]"]},` +
	`"RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}],"Topologies":[null,{"Segments":{"zone":"a"}}],` +
	`"Attachments":{"ffda6ca0-b543-6a1b-993b-ecc6eeb75cad":{"NodeID":"ffda6ca0-b543-6a1b-993b-ecc6eeb75cad","ExternalNodeID":"node-0","State":"detaching","Failures":3,"LastError":"the array is on fire","NextTry":1795334804588478491}},` +
	`"Allocations":[{"ID":"932eb091-c3da-f012-1f87-692041f21530","NodeID":"ffda6ca0-b543-6a1b-993b-ecc6eeb75cad","ClientStatus":"running","ClientDescription":"All tasks have ended; the driver is away"},` +
	`{"ID":"8ca6da13-dab3-7092-4f30-d3ab3ffc9dac","NodeID":"ffda6ca0-b543-6a1b-993b-ecc6eeb75cad","ClientStatus":"running","ClientDescription":"Tasks are running"}]}`

func TestVolumesOfTypeCSI(t *testing.T) {
	f := newFake(t, map[string]string{
		"PUT /v1/volume/csi/db/create": `{"Volumes":[` + csiVol + `],"Index":5}`, "PUT /v1/volume/csi/db": `{"Volumes":[` + csiVol + `],"Index":5}`,
		"GET /v1/volumes": "[" + csiVol + "]", "GET /v1/volume/csi/db": csiVol, "DELETE /v1/volume/csi/db/delete": "", "DELETE /v1/volume/csi/db": "",
		"DELETE /v1/volume/csi/db/detach": "", "PUT /v1/volumes/snapshot": `{"Snapshots":[{"ID":"s1","ExternalSourceVolumeID":"x1","SizeBytes":1048576,"IsReady":true}]}`,
		"GET /v1/volumes/snapshot": `{"Snapshots":[{"ID":"s1"}],"NextToken":"more"}`, "DELETE /v1/volumes/snapshot": "", "GET /v1/plugins": `[{"ID":"p","Provider":"local","NodesHealthy":1,"NodesExpected":2}]`,
		"GET /v1/plugin/csi/p": `{"ID":"p","Provider":"local","Nodes":{"ffda6ca0-b543-6a1b-993b-ecc6eeb75cad":{"PluginID":"p","Healthy":true,"HealthDescription":"healthy"}}}`,
	})
	spec := "type = \"csi\"\nid = \"db\"\nplugin_id = \"p\"\nexternal_id = \"x1\"\ncapability {\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}\nsecrets { k = \"xyzzy\" }\n"
	for _, verb := range []string{"create", "register"} {
		if r := f.at(t, with(spec, false), "volume", verb, "-"); r.code != 0 || strings.Contains(r.out+r.err, "xyzzy") {
			t.Errorf("%s: %+v", verb, r)
		}
	}
	if r := f.at(t, with(strings.Replace(spec, "single-node-writer", "some", 1), false), "volume", "create", "-"); r.code != 1 || !strings.Contains(r.err, `"some"; use one of`) {
		t.Errorf("a mode that does not exist: %+v", r)
	}
	if r := f.at(t, nil, "volume", "detach", "db", "beef"); r.code != 1 || !strings.Contains(r.err, `volume "db" is not attached to node "beef"`) {
		t.Errorf("detach from a node that has nothing: %+v", r)
	}
	for line, want := range map[string]string{"volume deregister y": "no volume with prefix or id", "volume snapshot list -plugin y": "no CSI driver"} {
		empty := newFake(t, map[string]string{"GET /v1/volumes": "[]", "GET /v1/plugins": "[]"})
		if r := empty.at(t, nil, strings.Fields(line)...); r.code != 1 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", line, r)
		}
	}
	for line, want := range map[string][]string{
		"volume status -type csi":          {"db  db", "0/0"},
		"volume status db":                 {"External ID", "= x1", "1.0 MiB", "[REDACTED]", "zone=a", "detaching", "the array is on fire", "2026-11-22T08:06:44Z", "Allocation 932eb091 on node ffda6ca0: All tasks have ended; the driver is away"},
		"volume status -json -type csi db": {`"ExternalID": "x1"`},
		"volume delete -secret k=v db":     {"Successfully deleted volume"},
		"volume deregister db":             {"Successfully deregistered volume"},
		"volume detach db ffda":            {"is detached"},
		"volume snapshot create db snap":   {"s1", "x1", "true"},
		"volume snapshot list -plugin p":   {"s1", "-page-token more"},
		"volume snapshot delete p s1":      {"is deleted"},
		"plugin status -type csi":          {"p   local", "1/2"},
		"plugin status -type csi p":        {"ffda6ca0", "healthy"},
	} {
		r := f.at(t, nil, strings.Fields(line)...)
		for _, w := range want {
			if r.code != 0 || !strings.Contains(r.out, w) {
				t.Errorf("%s: no %q in %+v", line, w, r)
			}
		}
	}
}
