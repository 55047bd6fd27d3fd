// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/command"
)

// changing matches times, which differ in each run and are masked in golden files.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:+Z-]+|\b\d+[dhms](\d+[hms])? ago`)

// TestTablesLookAsTheyShall compares the output of commands with testdata/*.txt.
// With -rewrite it writes these files.
func TestTablesLookAsTheyShall(t *testing.T) {
	answers := world()
	answers["GET /v1/job/web/summary"] = `{"JobID":"web","Summary":{"g":{"Running":1,"Failed":2}}}`
	answers["GET /v1/job/web/evaluations"] = answers["GET /v1/evaluations"]
	answers["GET /v1/client/allocation/"+allocID+"/stats"] = `{"Tasks":{"t":{"ResourceUsage":{"MemoryStats":{"RSS":3145728},"CpuStats":{"TotalTicks":12.4,"Percent":1.5}}}}}`
	answers["GET /v1/client/allocation/"+allocID+"/checks"] = `{"x":{"ID":"xxxxxxxxxxx","Check":"up","Group":"web.g[0]","Service":"web","Status":"success","Mode":"healthiness","Output":"nomad: tcp ok","Timestamp":1795246573}}`
	answers["GET /v1/operator/raft/configuration"] = `{"Servers":[{"ID":"i1","Node":"s1.global","Address":"10.0.0.1:4647","Leader":true,"Voter":true,"RaftProtocol":"3"},{"ID":"i2","Node":"s2.global","Address":"10.0.0.2:4647","Voter":false,"RaftProtocol":"3"}]}`
	answers["GET /v1/agent/members"] = `{"Members":[{"Name":"s1.global","Addr":"10.0.0.1","Port":4648,"Status":"alive","Tags":{"port":"4647","build":"1","dc":"dc1","region":"global","raft_vsn":"3"}}]}`
	answers["GET /v1/status/leader"] = `"10.0.0.1:4647"`
	answers["GET /v1/operator/autopilot/health"] = `500!{"Healthy":false,"FailureTolerance":0,"Leader":"i1","Servers":[{"ID":"i1","Name":"s1","Address":"a:1","SerfStatus":"alive","Healthy":false}]}`
	answers["GET /v1/namespaces"] = `[{"Name":"default","Description":"Default shared namespace"},{"Name":"dev","Meta":{"a":"b"},"Capabilities":{"EnabledTaskDrivers":["exec"]}}]`
	answers["GET /v1/node/pools"] = `[{"Name":"all"},{"Name":"gpu","Description":"with GPUs","SchedulerConfiguration":{"SchedulerAlgorithm":"spread","MemoryOversubscriptionEnabled":true}}]`
	answers["GET /v1/services"] = `[{"Namespace":"default","Services":[{"ServiceName":"web","Tags":["a","b"]}]}]`
	answers["GET /v1/service/web"] = `[{"ID":"r1","ServiceName":"web","JobID":"web","AllocID":"` + allocID + `","NodeID":"` + nodeID + `","Address":"10.0.0.1","Port":8080,"Tags":["a"]}]`
	answers["GET /v1/scaling/policies"] = `[{"ID":"eeee0000-0000-0000-0000-000000000001","Enabled":true,"Type":"horizontal","Target":{"Namespace":"default","Job":"web","Group":"g"}}]`
	answers["GET /v1/scaling/policy/eeee0000-0000-0000-0000-000000000001"] = `{"ID":"eeee0000-0000-0000-0000-000000000001","Enabled":true,"Type":"horizontal","Min":1,"Max":5,"Target":{"Namespace":"default","Job":"web","Group":"g"},"Policy":{"cooldown":"1m"}}`
	answers["GET /v1/job/web/scale"] = `{"JobID":"web","TaskGroups":{"g":{"Events":[{"Time":1795246573000000000,"Count":5,"PreviousCount":1,"Message":"more"},{"Time":1795246574000000000,"Error":true,"Message":"no"}]}}}`
	answers["GET /v1/client/metadata"] = `{"Meta":{"a":"1"},"Dynamic":{"a":"1","b":null},"Static":{"c":"2"}}`
	answers["GET /v1/operator/keyring/keys"] = `[{"KeyID":"kkkkkkkkkkkk","State":"active","CreateTime":1795246573000000000}]`
	answers["GET /v1/vars"] = `[{"Namespace":"default","Path":"a/b","ModifyTime":1795246573000000000}]`
	answers["GET /v1/var/a/b"] = `{"Namespace":"default","Path":"a/b","Items":{"k":"line \"one\"","l":"${two}"},"CreateIndex":4,"ModifyIndex":5}`
	for _, line := range []string{
		"status", "job status web", "job status -short web", "job status -json -namespace * ", "job allocs web", "job allocs -verbose web", "job deployments web", "job deployments -latest web",
		"job history web", "job inspect web", "job scaling-events web", "job scaling-events -verbose web",
		"alloc status bbbb", "alloc status -short bbbb", "alloc status -stats bbbb", "alloc checks bbbb",
		"node status", "node status -quiet -verbose", "node status -allocs -os", "node status aaaa", "node meta read",
		"eval list", "eval status cccc", "deployment list", "deployment status dddd", "deployment list -t {{range.}}{{.ID}},{{end}}",
		"namespace list", "namespace status dev", "node pool list", "node pool info gpu",
		"server members", "operator raft list-peers", "operator autopilot health", "operator autopilot get-config", "operator scheduler get-config", "operator root keyring list",
		"scaling policy list", "scaling policy info eeee", "service list", "service info web", "service info -verbose web",
		"var list", "var list -out terse", "var get a/b", "var get -out hcl a/b", "var get -out table a/b", "var get -item k a/b", "var get -out go-template -template {{.Items.k}} a/b",
		"operator api -dryrun -X PUT -d it's -token secret /v1/x?a=b", "completion bash", "completion zsh", "completion fish", "version",
	} {
		t.Run(line, func(t *testing.T) {
			f := newFake(t, answers)
			r := f.at(t, nil, strings.Fields(line)...)
			if r.code != 0 || r.err != "" {
				t.Fatalf("exit code %d: %s", r.code, r.err)
			}
			got := strings.ReplaceAll(changing.ReplaceAllString(r.out, "TIME"), f.URL, "http://AGENT")
			if strings.Contains(got, "\x1b") {
				t.Error("control characters appear where output is no terminal")
			}
			golden(t, line, got)
		})
	}
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", strings.Trim(unfit.ReplaceAllString(strings.ToLower(name), "-"), "-")+".txt")
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s (-rewrite writes it anew; %v) wants\n%sgot\n%s", path, err, want, got)
	}
}

func TestOperatorsAreToldOfPortsThatAreOpenToEverybody(t *testing.T) {
	answers := map[string]string{
		"GET /v1/agent/self":                  `{"stats":{"doors":{"http":"anybody can do it"}}}`,
		"GET /v1/agent/members":               `{"Members":[]}`,
		"GET /v1/status/leader":               `"a:1"`,
		"GET /v1/operator/raft/configuration": `{"Servers":[]}`,
		"GET /v1/operator/autopilot/health":   `{"Healthy":true}`,
	}
	for _, line := range []string{"server members", "operator raft list-peers", "operator autopilot health"} {
		r := newFake(t, answers).at(t, nil, strings.Fields(line)...)
		if r.code != 0 || !strings.Contains(r.err, "Warning: anybody can do it") {
			t.Errorf("%s: exit code %d, %q", line, r.code, r.err)
		}
	}
	if r := newFake(t, answers).at(t, nil, "agent-info"); !strings.Contains(r.out, "http = anybody can do it") {
		t.Errorf("agent-info: %q", r.out)
	}
}

func TestColoursAppearOnlyWhereTheyAreWanted(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		env      string
		flag     string
		want     bool
	}{
		"a terminal":                  {true, "", "", true},
		"no terminal":                 {false, "", "", false},
		"NO_COLOR":                    {true, "NO_COLOR", "", false},
		"TERM=dumb":                   {true, "TERM=dumb", "", false},
		"the reference's variable":    {true, "NOMAD_CLI_NO_COLOR", "", false},
		"-no-color":                   {true, "", "-no-color", false},
		"-force-color":                {false, "", "-force-color", true},
		"DROVER_CLI_FORCE_COLOR":      {false, "DROVER_CLI_FORCE_COLOR", "", true},
		"-force-color over NO_COLOR":  {false, "NO_COLOR", "-force-color", true},
		"-no-color over the variable": {false, "DROVER_CLI_FORCE_COLOR", "-no-color", false},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"deployment", "status", "dddd"}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			r := newFake(t, world()).at(t, func(stdio *command.IO) {
				stdio.Terminal = c.terminal
				name, value, _ := strings.Cut(c.env, "=")
				stdio.Env[name] = cmp.Or(value, "1")
			}, args...)
			if got := strings.Contains(r.out, "\x1b["); r.code != 0 || got != c.want {
				t.Errorf("colours %t, want %t:\n%q", got, c.want, r.out)
			}
		})
	}
}

func TestThereIsNoWebUIYetAndNobodyIsSentToOne(t *testing.T) {
	for line, page := range map[string]string{
		"job status -ui web": "/ui/jobs/web@default", "alloc status -ui bbbb": "/ui/allocations/" + allocID, "node status -ui aaaa": "/ui/clients/" + nodeID,
		"eval status -ui cccc": "/ui/evaluations?currentEval=" + evalID,
	} {
		answers := world()
		answers["GET /v1/job/web/summary"], answers["GET /v1/job/web/evaluations"] = "{}", "[]"
		answers["GET /v1/client/allocation/"+allocID+"/stats"] = "{}"
		f := newFake(t, answers)
		if r := f.at(t, nil, strings.Fields(line)...); r.code != 0 || !strings.Contains(r.err, "there is no web UI yet; this page will be at "+f.URL+page) {
			t.Errorf("%s: exit code %d: %s", line, r.code, r.err)
		}
	}
	for line, instead := range map[string]string{"ui": "drover status", "ui web": "drover status web", "ui -show-url": "drover status"} {
		if r := execute(t, nil, strings.Fields(line)...); r.code != 1 || !strings.Contains(r.err, "there is no web UI yet; see: "+instead) {
			t.Errorf("%s: exit code %d: %s", line, r.code, r.err)
		}
	}
}

func TestTablesAreAlignedByWhatATerminalShows(t *testing.T) {
	r := execute(t, map[string]string{"GET /v1/jobs": `[{"ID":"日本語","Type":"service","Status":"running"},{"ID":"e\u0301te\u0301","Type":"service","Status":"running"},{"ID":"longest","Type":"","Status":"dead"}]`}, "job", "status")
	want := []string{
		"ID       Type     Priority  Status   Submit Date",
		"日本語   service  0         running",
		"e\u0301te\u0301      service  0         running",
		"longest  <none>   0         dead",
	}
	rows := strings.Split(strings.TrimSpace(r.out), "\n")
	for i, row := range want {
		if len(rows) != len(want) || !strings.HasPrefix(rows[i], row) {
			t.Fatalf("exit code %d: got\n%s\nwant rows that begin with\n%s", r.code, r.out, strings.Join(want, "\n"))
		}
	}
}

func TestCommandsThatAlwaysRefuseAreNotOffered(t *testing.T) {
	hidden := command.Hidden()
	all := command.All(command.IO{})
	for _, line := range []string{"operator raft migrate-backend d", "operator snapshot redact f", "operator utilization"} {
		words := strings.Fields(line)
		name := line
		for len(words) > 0 && all[name] == nil {
			words = words[:len(words)-1]
			name = strings.Join(words, " ")
		}
		if !slices.Contains(hidden, name) {
			t.Errorf("help offers %q, which always refuses", name)
		}
		if r := execute(t, nil, strings.Fields(line)...); r.code != 1 || !strings.Contains(r.err, "this needs") && !strings.Contains(r.err, "there is no") {
			t.Errorf("%s: exit code %d: %s", line, r.code, r.err)
		}
	}
}

func TestCommandsThatWorkAreOfferedByHelp(t *testing.T) {
	for _, name := range command.Hidden() {
		if strings.Contains(name, " ") && !slices.Contains([]string{"operator raft migrate-backend", "operator snapshot redact", "operator utilization"}, name) {
			t.Errorf("%q works, and help does not list it", name)
		}
	}
}

func TestWhatATerminalWouldActOnIsWrittenOut(t *testing.T) {
	r := execute(t, map[string]string{"GET /v1/jobs": `[{"ID":"a\n?&字\u001b[2J","Type":"service","Status":"running"}]`}, "job", "status")
	if rows := strings.Split(strings.TrimSpace(r.out), "\n"); r.code != 0 || len(rows) != 2 || !strings.HasPrefix(rows[1], `a\n?&字\x1b[2J  service`) {
		t.Errorf("exit code %d: %q", r.code, r.out)
	}
}

func TestErrorsSayWhatToDoNext(t *testing.T) {
	for answer, says := range map[string]string{
		"403!Permission denied":                "Pass a token that allows this",
		"501!not here":                         "The agent's version does not support this",
		"429!too many":                         "try again later",
		"404!":                                 "does not know this request",
		"500!":                                 "drover monitor",
		"500!rpc error: No cluster leader now": "No cluster leader now\n",
	} {
		t.Run(answer, func(t *testing.T) {
			r := execute(t, map[string]string{"GET /v1/namespaces": answer}, "namespace", "list")
			if r.code != 1 || !strings.HasSuffix(strings.TrimSuffix(r.err, ".\n"), strings.TrimSuffix(says, ".")) && !strings.Contains(r.err, says) {
				t.Errorf("exit code %d: %s", r.code, r.err)
			}
		})
	}
	f := newFake(t, nil)
	f.Close()
	if r := f.at(t, nil, "namespace", "list"); r.code != 1 || !strings.Contains(r.err, "is it running, and is the address (-address, DROVER_ADDR) right?") {
		t.Errorf("no agent: exit code %d: %s", r.code, r.err)
	}
}

func TestAnAmbiguousPrefixListsItsMeanings(t *testing.T) {
	many := `[{"ID":"abcd0000-0000-0000-0000-000000000001","Name":"web.g[0]","ClientStatus":"running"},{"ID":"abcd0000-0000-0000-0000-000000000002","Name":"web.g[1]","ClientStatus":"failed"}]`
	r := execute(t, map[string]string{"GET /v1/allocations": many}, "alloc", "status", "abcd")
	for _, want := range []string{"abcd0000-0000-0000-0000-000000000001  web.g[0], running", "abcd0000-0000-0000-0000-000000000002  web.g[1], failed"} {
		if r.code != 1 || !strings.Contains(r.err, want) {
			t.Errorf("exit code %d, want %q in: %s", r.code, want, r.err)
		}
	}
	jobs := `[{"ID":"web-a","Namespace":"default"},{"ID":"web-b","Namespace":"default"}]`
	if r := execute(t, map[string]string{"GET /v1/jobs": jobs}, "job", "stop", "web"); r.code != 1 || !strings.Contains(r.err, "web-b  in namespace default") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}
