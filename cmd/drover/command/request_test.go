// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

const (
	nodeID  = "aaaa0000-0000-0000-0000-000000000001"
	allocID = "bbbb0000-0000-0000-0000-000000000001"
	evalID  = "cccc0000-0000-0000-0000-000000000001"
	deplID  = "dddd0000-0000-0000-0000-000000000001"
)

// world returns the answers of an agent that has one object of each kind.
func world() map[string]string {
	job := `{"ID":"web","Namespace":"default","Name":"web","Type":"service","Priority":50,"Version":3,"JobModifyIndex":21,"Status":"running","TaskGroups":[{"Name":"g","Count":1,"Tasks":[{"Name":"t"}]}]}`
	alloc := `{"ID":"` + allocID + `","Name":"web.g[0]","Namespace":"default","JobID":"web","NodeID":"` + nodeID + `","TaskGroup":"g","ClientStatus":"running","DesiredStatus":"run","TaskStates":{"t":{"State":"running","Events":[{"Type":"Started","Time":1795246573000000000,"DisplayMessage":"Task started by client"}]}},"AllocatedResources":{"Tasks":{"t":{"Cpu":{"CpuShares":100},"Memory":{"MemoryMB":64}}},"Shared":{"DiskMB":300,"Ports":[{"Label":"http","Value":8080,"HostIP":"10.0.0.1"}]}},"Job":` + job + `}`
	eval := `{"ID":"` + evalID + `","Namespace":"default","JobID":"web","Status":"complete","Type":"service","Priority":50,"TriggeredBy":"job-register"}`
	depl := `{"ID":"` + deplID + `","Namespace":"default","JobID":"web","Status":"running","TaskGroups":{"g":{"DesiredTotal":1}}}`
	node := `{"ID":"` + nodeID + `","Name":"n1","Datacenter":"dc1","NodePool":"default","Status":"down","SchedulingEligibility":"eligible"}`
	done := `{"EvalID":"` + evalID + `"}`
	w := map[string]string{
		"GET /v1/jobs": "[" + job + "]", "GET /v1/job/web": job, "GET /v1/allocations": "[" + alloc + "]", "GET /v1/allocation/" + allocID: alloc,
		"GET /v1/job/web/allocations": "[" + alloc + "]", "GET /v1/evaluations": "[" + eval + "]", "GET /v1/evaluation/" + evalID: eval,
		"GET /v1/evaluation/" + evalID + "/allocations": "[" + alloc + "]", "GET /v1/deployments": "[" + depl + "]", "GET /v1/deployment/" + deplID: depl,
		"GET /v1/job/web/deployment": depl, "GET /v1/job/web/deployments": "[" + depl + "]", "GET /v1/nodes": "[" + node + "]", "GET /v1/node/" + nodeID: node, "GET /v1/node/" + nodeID + "/allocations": "[]",
		"GET /v1/job/web/versions": `{"Versions":[{"ID":"web","Version":3},{"ID":"web","Version":2,"VersionTag":{"Name":"good"}}]}`,
		"GET /v1/agent/self":       `{"stats":{"client":{"node_id":"` + nodeID + `"}}}`, "GET /v1/evaluations/count": `{"Count":4}`,
		"GET /v1/operator/scheduler/configuration": `{"SchedulerConfig":{"SchedulerAlgorithm":"binpack","ModifyIndex":9,"PreemptionConfig":{"SystemSchedulerEnabled":true}}}`,
		"GET /v1/operator/autopilot/configuration": `{"MaxTrailingLogs":250,"CleanupDeadServers":true,"ModifyIndex":7}`,
		"GET /v1/namespace/dev":                    `{"Name":"dev","Description":"old","Quota":"q"}`,
		"GET /v1/job/web/submission":               `{"Source":"job \"web\" {}","Format":"hcl2"}`,
		"PUT /v1/job/web/scale":                    done, "PUT /v1/job/web/evaluate": done, "PUT /v1/job/web/revert": done, "PUT /v1/job/web/dispatch": `{"DispatchedJobID":"web/dispatch-1","EvalID":"` + evalID + `"}`,
		"DELETE /v1/job/web": done, "PUT /v1/allocation/" + allocID + "/stop": done, "PUT /v1/node/" + nodeID + "/drain": "{}",
		"PUT /v1/node/" + nodeID + "/eligibility": "{}", "DELETE /v1/evaluations": `{"Count":4}`,
	}
	for _, verb := range []string{"fail", "pause", "promote", "unblock"} {
		w["PUT /v1/deployment/"+verb+"/"+deplID] = done
	}
	for _, path := range []string{"/v1/client/allocation/" + allocID + "/restart", "/v1/client/allocation/" + allocID + "/signal", "/v1/client/allocation/" + allocID + "/freeze", "/v1/client/allocation/" + allocID + "/thaw", "/v1/client/allocation/" + allocID + "/pause", "/v1/job/web/versions/best/tag",
		"/v1/namespace/dev", "/v1/system/gc", "/v1/system/reconcile/summaries", "/v1/agent/force-leave",
		"/v1/operator/raft/transfer-leadership", "/v1/agent/servers", "/v1/client/metadata"} {
		w["PUT "+path] = "{}"
	}
	w["PUT /v1/operator/autopilot/configuration"] = "true"
	w["PUT /v1/operator/scheduler/configuration"] = `{"Updated":true}`
	for _, path := range []string{"/v1/job/web/versions/good/tag", "/v1/namespace/dev", "/v1/node/pool/p", "/v1/operator/raft/peer", "/v1/operator/keyring/key/k", "/v1/service/s/id"} {
		w["DELETE "+path] = "{}"
	}
	w["GET /v1/agent/members"] = `{"Members":[{"Name":"s1.global"}]}`
	w["PUT /v1/agent/join"] = `{"num_joined":2}`
	return w
}

func TestCommandsAskTheAPIForWhatTheirFlagsSay(t *testing.T) {
	for line, want := range map[string]string{
		"job scale -detach -check-index 21 web 5":                                     `PUT /v1/job/web/scale?namespace=default {"Count":5,"Target":{"Group":"g"},"Message":"submitted using the Drover CLI","Error":false,"Meta":null,"PolicyOverride":false,"EnforceIndex":true,"JobModifyIndex":21}`,
		"job eval -detach -force-reschedule web":                                      `PUT /v1/job/web/evaluate?namespace=default {"JobID":"web","EvalOptions":{"ForceReschedule":true}}`,
		"job revert -detach web good":                                                 `PUT /v1/job/web/revert?namespace=default {"JobID":"web","JobVersion":2,"EnforcePriorVersion":null,"TaggedVersion":""}`,
		"job stop -detach -purge -no-shutdown-delay web":                              `DELETE /v1/job/web?global=false&namespace=default&no_shutdown_delay=true&purge=true`,
		"job dispatch -detach -meta a=b -meta c=d web -":                              `PUT /v1/job/web/dispatch?namespace=default {"JobID":"web","Payload":"am9iICJ3ZWIiIHsKICBncm91cCAiZyIgewogICAgdGFzayAidCIgewogICAgICBkcml2ZXIgPSAicmF3X2V4ZWMiCiAgICB9CiAgfQp9Cg==","Meta":{"a":"b","c":"d"},"IdPrefixTemplate":"","Priority":0}`,
		"job tag apply -name best -description d web":                                 `PUT /v1/job/web/versions/best/tag?namespace=default {"Version":3,"Description":"d"}`,
		"job tag unset -name good web":                                                `DELETE /v1/job/web/versions/good/tag?namespace=default`,
		"job promote -detach -group g web":                                            `PUT /v1/deployment/promote/` + deplID + `?namespace=default {"DeploymentID":"` + deplID + `","All":false,"Groups":["g"]}`,
		"alloc stop -detach bbbb":                                                     `PUT /v1/allocation/` + allocID + `/stop?no_shutdown_delay=false {}`,
		"alloc restart -all-tasks bbbb":                                               `PUT /v1/client/allocation/` + allocID + `/restart {"AllTasks":true,"TaskName":""}`,
		"alloc freeze bbbb t":                                                         `PUT /v1/client/allocation/` + allocID + `/freeze {"Task":"t"}`,
		"alloc thaw -task t bbbb":                                                     `PUT /v1/client/allocation/` + allocID + `/thaw {"Task":"t"}`,
		"alloc pause -state scheduled bbbb t":                                         `PUT /v1/client/allocation/` + allocID + `/pause {"ScheduleState":"scheduled","Task":"t"}`,
		"alloc pause bbbb":                                                            `PUT /v1/client/allocation/` + allocID + `/pause {"ScheduleState":"pause","Task":""}`,
		"alloc signal -s SIGHUP bbbb t":                                               `PUT /v1/client/allocation/` + allocID + `/signal {"Signal":"SIGHUP","Task":"t"}`,
		"node eligibility -disable aaaa":                                              `PUT /v1/node/` + nodeID + `/eligibility {"NodeID":"` + nodeID + `","Eligibility":"ineligible"}`,
		"node drain -enable -force -detach -m why -self":                              `PUT /v1/node/` + nodeID + `/drain {"NodeID":"` + nodeID + `","DrainSpec":{"Deadline":-1,"IgnoreSystemJobs":false},"MarkEligible":false,"Meta":{"message":"why"}}`,
		"node drain -enable -no-deadline -yes -detach aaaa":                           `PUT /v1/node/` + nodeID + `/drain {"NodeID":"` + nodeID + `","DrainSpec":{"Deadline":0,"IgnoreSystemJobs":false},"MarkEligible":false,"Meta":{}}`,
		"node drain -disable -yes aaaa":                                               `PUT /v1/node/` + nodeID + `/drain {"NodeID":"` + nodeID + `","DrainSpec":null,"MarkEligible":true,"Meta":{}}`,
		"deployment fail -detach dddd":                                                `PUT /v1/deployment/fail/` + deplID + ` {"DeploymentID":"` + deplID + `"}`,
		"deployment pause dddd":                                                       `PUT /v1/deployment/pause/` + deplID + ` {"DeploymentID":"` + deplID + `","Pause":true}`,
		"deployment unblock -detach dddd":                                             `PUT /v1/deployment/unblock/` + deplID + ` {"DeploymentID":"` + deplID + `"}`,
		"eval delete cccc":                                                            `DELETE /v1/evaluations?namespace=default {"EvalIDs":["` + evalID + `"],"Filter":""}`,
		"eval delete -yes -filter x==1":                                               `DELETE /v1/evaluations {"EvalIDs":null,"Filter":"x==1"}`,
		"namespace apply -description new dev":                                        `PUT /v1/namespace/dev {"Name":"dev","Description":"new","Quota":"q","Capabilities":null,"NodePoolConfiguration":null,"VaultConfiguration":null,"ConsulConfiguration":null,"Meta":null,"CreateIndex":0,"ModifyIndex":0}`,
		"namespace delete dev":                                                        `DELETE /v1/namespace/dev`,
		"node pool delete p":                                                          `DELETE /v1/node/pool/p`,
		"node meta apply -unset x a=b":                                                `PUT /v1/client/metadata?node_id= {"Meta":{"a":"b","x":null},"NodeID":""}`,
		"node config -update-servers h:1 h:2":                                         `PUT /v1/agent/servers?address=h%3A1&address=h%3A2`,
		"server join h:1 h:2":                                                         `PUT /v1/agent/join?address=h%3A1&address=h%3A2`,
		"server force-leave s1.global":                                                `PUT /v1/agent/force-leave?node=s1.global`,
		"server force-leave -prune s1":                                                `PUT /v1/agent/force-leave?node=s1&prune=true`,
		"operator raft remove-peer -peer-id x":                                        `DELETE /v1/operator/raft/peer?id=x`,
		"operator raft transfer-leadership -peer-address h:1":                         `PUT /v1/operator/raft/transfer-leadership?address=h%3A1`,
		"operator root keyring remove k":                                              `DELETE /v1/operator/keyring/key/k`,
		"operator autopilot set-config -max-trailing-logs 5 -enable-redundancy-zones": `PUT /v1/operator/autopilot/configuration?cas=7 {"CleanupDeadServers":true,"LastContactThreshold":"","MaxTrailingLogs":5,"MinQuorum":0,"ServerStabilizationTime":"","EnableRedundancyZones":true,"DisableUpgradeMigration":false,"EnableCustomUpgrades":false,"CreateIndex":0,"ModifyIndex":7}`,
		"operator scheduler set-config -preempt-batch-scheduler":                      `PUT /v1/operator/scheduler/configuration?cas=9 {"SchedulerAlgorithm":"binpack","PreemptionConfig":{"SystemSchedulerEnabled":true,"SysBatchSchedulerEnabled":false,"BatchSchedulerEnabled":true,"ServiceSchedulerEnabled":false},"MemoryOversubscriptionEnabled":false,"RejectJobRegistration":false,"PauseEvalBroker":false,"NodeLimitForFeasibilityChecks":0,"CreateIndex":0,"ModifyIndex":9}`,
		"operator api -X POST -d {\"a\":1} /v1/system/gc?x=y":                         `POST /v1/system/gc?x=y {"a":1}`,
		"service delete s id":                                                         `DELETE /v1/service/s/id`,
		"system gc":                                                                   `PUT /v1/system/gc`,
		"system reconcile summaries":                                                  `PUT /v1/system/reconcile/summaries`,
		"system gc -region eu -namespace x":                                           `PUT /v1/system/gc?namespace=x&region=eu`,
	} {
		t.Run(line, func(t *testing.T) {
			answers := world()
			answers["POST /v1/system/gc"] = "{}"
			f := newFake(t, answers)
			r := f.at(t, nil, strings.Fields(line)...)
			if got := strings.Join(f.writes(), "\n"); r.code != 0 || got != want {
				t.Errorf("exit code %d\ngot  %s\nwant %s\n%s", r.code, got, want, r.err)
			}
		})
	}
}

func TestUsesThatMakeNoSenseAreRefusedBeforeAnythingIsAsked(t *testing.T) {
	for line, says := range map[string]string{
		"node drain aaaa": "give one of -enable, -disable and -monitor",
		"node drain -enable -force -no-deadline aaaa": "give one of -deadline, -no-deadline and -force",
		"node drain -disable -force aaaa":             "need -enable",
		"node drain -enable -deadline -1s aaaa":       "longer than 0",
		"node eligibility -enable":                    "give either a node or -self",
		"eval list -status done":                      `-status "done": use one of blocked, pending, complete, failed, canceled`,
		"eval delete":                                 "give either an evaluation or -filter",
		"job history -diff-version 1 web":             "need -p",
		"job inspect -with-vars web":                  "-with-vars needs -hcl",
		"job run -consul-namespace x -":               "the namespace is that of the consul blocks of the job; leave the flag out",
		"job init -connect":                           "there is no service mesh",
		"job scale web":                               "wrong number of arguments (1); usage: drover job scale",
		"job restart -reschedule -all-tasks web":      "replaces whole allocations",
		"job restart -batch-size 0 web":               "a number above 0 or a percentage",
		"job restart -on-error maybe web":             "use ask or fail",
		"job action act":                              "give the job with -job",
		"job dispatch -meta nonsense web":             "is not KEY=VALUE",
		"alloc status":                                "drover job allocs <job>",
		"alloc exec -t bbbb sh":                       "pass -t=false",
		"alloc exec -t -i=false bbbb sh":              "use -t together with -i",
		"alloc exec -e xx bbbb sh":                    "give a single character, or none",
		"alloc logs -json bbbb":                       "flag provided but not defined: -json",
		"job status -json -t x web":                   "give either -json or -t",
		"job status -t {{.Nope web":                   "the template of -t is not valid",
		"monitor export":                              "give either -on-disk or -service-name",
		"monitor -node-id a -server-id b":             "give either -node-id or -server-id",
		"operator raft remove-peer":                   "drover operator raft list-peers",
		"operator scheduler set-config":               "no settings to change were given",
		"operator metrics -format xml":                "use json or prometheus",
		"operator debug -interval 2m -duration 1m":    "-interval not longer than -duration",
		"operator debug -consul-token x":              "nothing is collected from Consul",
		"operator api nope\x7f":                       "is not a path of the API",
		"node meta apply":                             "give KEY=VALUE",
		"node config":                                 "give either -servers or -update-servers",
		"var put p":                                   "the variable has no items",
		"var put -force -check-index 1 p a=b":         "give either -force or -check-index",
		"var get -item a -out json p":                 "remove -out and -template",
		"completion":                                  "give a shell (bash, zsh or fish)",
		"completion -install zsh":                     "give a shell (bash, zsh or fish)",
		"completion tcsh":                             "use bash, zsh or fish",
		"job run -address ftp://x -":                  "use http, https or unix",
		"job run -ca-cert /nowhere -":                 "read the CA certificate",
		"deployment status -monitor -json dddd":       "-monitor cannot be combined with -json",

		"operator root keyring rotate -prepublish 0s":      "give a time above 0",
		"operator root keyring rotate -prepublish=-1h":     "give a time above 0",
		"operator root keyring rotate -now -prepublish 1h": "give either -now or -prepublish",
	} {
		t.Run(line, func(t *testing.T) {
			f := newFake(t, world())
			r := f.at(t, nil, strings.Fields(line)...)
			if r.code != 1 || !strings.Contains(r.err, says) || len(f.writes()) > 0 {
				t.Errorf("exit code %d, asked %v; want %q in:\n%s", r.code, f.writes(), says, r.err)
			}
		})
	}
}

func TestQuestionsAreAskedAtATerminalAndRefusedElsewhere(t *testing.T) {
	args := []string{"job", "stop", "-detach", "we"}
	for name, c := range map[string]struct {
		input    string
		terminal bool
		code     int
		stops    bool
		shows    string
	}{
		"yes":         {"y\n", true, 0, true, evalID},
		"no":          {"n\n", true, 0, false, "nothing was changed"},
		"end":         {"", true, 0, false, "nothing was changed"},
		"no terminal": {"y\n", false, 1, false, "answer with -yes"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, world())
			r := f.at(t, with(c.input, c.terminal), args...)
			if r.code != c.code || len(f.writes()) > 0 != c.stops || !strings.Contains(r.out+r.err, c.shows) {
				t.Errorf("exit code %d, asked %v:\n%s%s", r.code, f.writes(), r.out, r.err)
			}
		})
	}
	f := newFake(t, world())
	if r := f.at(t, with("", false), append(args, "-yes")...); r.code != 0 || len(f.writes()) != 1 {
		t.Errorf("-yes: exit code %d, asked %v: %s", r.code, f.writes(), r.err)
	}
	f = newFake(t, world())
	if r := f.at(t, with("", false), "job", "stop", "-detach", "web"); r.code != 0 || len(f.writes()) != 1 {
		t.Errorf("a whole id needs no answer: exit code %d, asked %v: %s", r.code, f.writes(), r.err)
	}
}

func TestAServerThatDoesNotExistIsNotMadeToLeave(t *testing.T) {
	f := newFake(t, world())
	r := f.at(t, nil, "server", "force-leave", "nobody")
	if r.code != 1 || !strings.Contains(r.err, `no server is called "nobody"; list them with: drover server members`) || len(f.writes()) > 0 {
		t.Errorf("%d, %q, written %q", r.code, r.err, f.writes())
	}
}

func TestAnAgentWithoutANodeIsAnsweredWithHowTheCommandNamesOne(t *testing.T) {
	for line, says := range map[string]string{
		"node status -self": "give the id of one instead of -self", "node drain -enable -self": "give the id of one instead of -self",
	} {
		r := execute(t, map[string]string{"GET /v1/agent/self": `{"stats":{}}`}, strings.Fields(line)...)
		if r.code != 1 || !strings.Contains(r.err, "the agent does not run a node; "+says) {
			t.Errorf("%s: exit code %d: %s", line, r.code, r.err)
		}
	}
}
