// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

// The parameters that a route accepts, by name. A parameter marked with ~ is accepted
// although nothing reads it, because the answer is correct with and without it; the
// comment beside the row says why.
const (
	everywhere = "region namespace pretty"
	reads      = "index wait stale consistent"
	pages      = reads + " filter per_page next_token reverse"
	lists      = pages + " prefix"
	agents     = "node_id server_id"
	anything   = "*" // the route rejects every request
	nothing    = ""
)

// manyTimes are the parameters that may be given more than once.
var manyTimes = []string{"address", "topic"}

// routeParams lists every route with its parameters. A parameter that is not listed
// causes a warning, or an error if it makes a write conditional. A test checks that
// the listed parameters are read.
var routeParams = map[string]string{
	"GET /v1/jobs":                                           lists + " meta",
	"PUT /v1/jobs":                                           nothing,
	"PUT /v1/jobs/parse":                                     nothing,
	"GET /v1/jobs/statuses":                                  lists + " include_children",
	"PUT /v1/jobs/statuses":                                  lists + " include_children",
	"PUT /v1/validate/job":                                   nothing,
	"GET /v1/job/{id}":                                       reads,
	"PUT /v1/job/{id}":                                       nothing,
	"DELETE /v1/job/{id}":                                    "purge ~global no_shutdown_delay eval_priority", // there is only one region
	"PUT /v1/job/{id}/evaluate":                              nothing,
	"GET /v1/job/{id}/allocations":                           reads + " all",
	"GET /v1/job/{id}/evaluations":                           reads,
	"PUT /v1/job/{id}/periodic/force":                        nothing,
	"PUT /v1/job/{id}/plan":                                  nothing,
	"GET /v1/job/{id}/summary":                               reads,
	"PUT /v1/job/{id}/dispatch":                              "idempotency_token",
	"GET /v1/job/{id}/versions":                              reads + " diffs diff_version diff_tag",
	"PUT /v1/job/{id}/versions/{name}/tag":                   nothing,
	"DELETE /v1/job/{id}/versions/{name}/tag":                nothing,
	"PUT /v1/job/{id}/revert":                                nothing,
	"GET /v1/job/{id}/deployments":                           reads + " all",
	"GET /v1/job/{id}/deployment":                            reads,
	"PUT /v1/job/{id}/stable":                                nothing,
	"GET /v1/job/{id}/services":                              pages,
	"GET /v1/job/{id}/actions":                               reads,
	"GET /v1/job/{id}/action":                                "action allocID task group tty ws_handshake",
	"GET /v1/job/{id}/submission":                            reads + " version",
	"GET /v1/job/{id}/scale":                                 reads,
	"PUT /v1/job/{id}/scale":                                 nothing,
	"GET /v1/job/{id}/dispatch/payload":                      reads,
	"GET /v1/scaling/policies":                               lists + " job type",
	"GET /v1/scaling/policy/{id}":                            reads,
	"GET /v1/services":                                       pages,
	"GET /v1/service/{name}":                                 pages + " choose",
	"PUT /v1/search":                                         reads,
	"PUT /v1/search/fuzzy":                                   reads,
	"GET /v1/event/stream":                                   "topic index filter",
	"GET /v1/allocations":                                    lists + " resources task_states",
	"GET /v1/allocation/{id}":                                reads,
	"PUT /v1/allocation/{id}/stop":                           "no_shutdown_delay reschedule",
	"GET /v1/allocation/{id}/services":                       pages,
	"GET /v1/evaluations":                                    lists + " job status",
	"DELETE /v1/evaluations":                                 nothing,
	"GET /v1/evaluations/count":                              reads + " prefix filter job status ~per_page ~next_token ~reverse", // the count includes all pages
	"GET /v1/evaluation/{id}":                                reads + " related",
	"GET /v1/evaluation/{id}/allocations":                    reads,
	"GET /v1/deployments":                                    lists,
	"GET /v1/deployment/{id}":                                reads,
	"GET /v1/deployment/allocations/{id}":                    reads,
	"PUT /v1/deployment/fail/{id}":                           nothing,
	"PUT /v1/deployment/pause/{id}":                          nothing,
	"PUT /v1/deployment/promote/{id}":                        nothing,
	"PUT /v1/deployment/unblock/{id}":                        nothing,
	"PUT /v1/deployment/allocation-health/{id}":              nothing,
	"GET /v1/nodes":                                          lists + " resources os",
	"GET /v1/node/pools":                                     lists,
	"PUT /v1/node/pools":                                     nothing,
	"GET /v1/node/pool/{name}":                               reads,
	"PUT /v1/node/pool/{name}":                               nothing,
	"DELETE /v1/node/pool/{name}":                            nothing,
	"GET /v1/node/pool/{name}/jobs":                          lists + " meta",
	"GET /v1/node/pool/{name}/nodes":                         lists + " resources os",
	"GET /v1/node/{id}":                                      reads,
	"GET /v1/node/{id}/allocations":                          reads,
	"PUT /v1/node/{id}/drain":                                nothing,
	"PUT /v1/node/{id}/eligibility":                          nothing,
	"PUT /v1/node/{id}/evaluate":                             nothing,
	"PUT /v1/node/{id}/purge":                                nothing,
	"GET /v1/namespaces":                                     lists,
	"PUT /v1/namespace":                                      nothing,
	"GET /v1/namespace/{name}":                               reads,
	"PUT /v1/namespace/{name}":                               nothing,
	"DELETE /v1/namespace/{name}":                            nothing,
	"PUT /v1/system/gc":                                      nothing,
	"PUT /v1/system/reconcile/summaries":                     nothing,
	"GET /v1/status/leader":                                  "~stale", // the only server knows the leader
	"GET /v1/status/peers":                                   "~stale",
	"GET /v1/regions":                                        "~stale",
	"GET /v1/operator/raft/configuration":                    "~stale", // always the current configuration of raft
	"DELETE /v1/operator/raft/peer":                          "id address",
	"PUT /v1/operator/raft/transfer-leadership":              "id address",
	"GET /v1/operator/autopilot/configuration":               "~stale",
	"PUT /v1/operator/autopilot/configuration":               anything,
	"GET /v1/operator/autopilot/health":                      "~stale",
	"GET /v1/operator/scheduler/configuration":               reads,
	"PUT /v1/operator/scheduler/configuration":               "cas",
	"GET /v1/operator/snapshot":                              "~stale", // the only server saves the newest state
	"PUT /v1/operator/snapshot":                              nothing,
	"GET /v1/operator/keyring/keys":                          pages,
	"PUT /v1/operator/keyring/rotate":                        "full algo algorithm publish_time",
	"DELETE /v1/operator/keyring/key/{id}":                   "force",
	"GET /.well-known/jwks.json":                             reads,
	"GET /v1/vars":                                           lists,
	"GET /v1/var/{path...}":                                  reads,
	"PUT /v1/var/{path...}":                                  "cas lock-acquire lock-release lock-renew",
	"DELETE /v1/var/{path...}":                               "cas lock-id",
	"GET /v1/registry/plugins":                               lists,
	"GET /v1/registry/plugin/{name}":                         reads + " reveal",
	"PUT /v1/registry/plugin/{name}":                         "cas",
	"DELETE /v1/registry/plugin/{name}":                      "cas",
	"PUT /v1/registry/plugin/{name}/rollout":                 nothing,
	"GET /v1/registry/plugin/{name}/nodes":                   lists,
	"GET /v1/registry/file/{digest}":                         nothing,
	"PUT /v1/registry/file/{digest}":                         nothing,
	"GET /v1/schemas/drivers":                                pages,
	"GET /v1/schemas/driver/{name}":                          reads,
	"GET /v1/agent/self":                                     nothing,
	"GET /v1/agent/servers":                                  nothing,
	"GET /v1/agent/members":                                  nothing,
	"PUT /v1/agent/join":                                     "address",
	"PUT /v1/agent/force-leave":                              "node ~prune", // no server is kept as left
	"GET /v1/agent/health":                                   "type",
	"GET /v1/agent/host":                                     agents,
	"PUT /v1/agent/reload":                                   nothing,
	"GET /v1/agent/pprof/{kind}":                             agents + " seconds ~debug ~gc", // net/http/pprof reads them
	"GET /v1/agent/monitor":                                  agents + " log_level log_json log_include_location plain",
	"GET /v1/agent/monitor/export":                           agents + " on_disk follow service_name logs_since plain",
	"GET /v1/agent/schedulers":                               nothing,
	"GET /v1/agent/schedulers/config":                        nothing,
	"PUT /v1/agent/schedulers/config":                        nothing,
	"GET /v1/agent/plugins":                                  "node_id",
	"GET /v1/agent/plugin/{name}":                            "node_id",
	"DELETE /v1/agent/plugin/{name}":                         "node_id force",
	"PUT /v1/agent/plugin/{name}/{action}":                   "node_id detach digest version config",
	"GET /v1/metrics":                                        "format",
	"GET /v1/client/stats":                                   "node_id",
	"GET /v1/client/cluster":                                 "node_id",
	"PUT /v1/client/cluster":                                 "node_id",
	"GET /v1/client/gc":                                      "node_id",
	"PUT /v1/client/gc":                                      "node_id",
	"GET /v1/client/metadata":                                "node_id",
	"PUT /v1/client/metadata":                                "node_id",
	"GET /v1/client/allocation/{id}/stats":                   "task",
	"GET /v1/client/allocation/{id}/checks":                  nothing,
	"PUT /v1/client/allocation/{id}/restart":                 nothing,
	"PUT /v1/client/allocation/{id}/signal":                  nothing,
	"GET /v1/client/allocation/{id}/gc":                      nothing,
	"PUT /v1/client/allocation/{id}/gc":                      nothing,
	"GET /v1/client/allocation/{id}/exec":                    "task action job command tty ws_handshake",
	"GET /v1/client/fs/ls/{id}":                              "path",
	"GET /v1/client/fs/stat/{id}":                            "path",
	"GET /v1/client/fs/cat/{id}":                             "path",
	"GET /v1/client/fs/readat/{id}":                          "path offset limit",
	"GET /v1/client/fs/stream/{id}":                          "path offset origin follow plain",
	"GET /v1/client/fs/logs/{id}":                            "task type offset origin follow plain",
	"GET /v1/volumes":                                        reads + " ~type ~node_id ~plugin_id ~node_pool ~prefix ~filter ~per_page ~next_token ~reverse", // there are no volumes
	"GET /v1/plugins":                                        reads + " ~type ~prefix ~filter ~per_page ~next_token ~reverse",
	"GET /v1/operator/upgrade-check/vault-workload-identity": reads,
}
