// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"net/http/pprof"
	"slices"

	"github.com/drover-project/drover/core/state"
)

// allRoutes returns the table of all routes.
func allRoutes() []row { return slices.Concat(serverRoutes(), localRoutes, debugRoutes) }

// serverRoutes returns the routes that servers answer.
func serverRoutes() []row {
	return slices.Concat(jobRoutes, allocRoutes, nodeRoutes, clusterRoutes, pluginRoutes, hostVolumeRoutes, csiVolumeRoutes, explainRoutes, absentRoutes)
}

var jobRoutes = []row{
	{get, "/v1/jobs", "list-jobs", lists + " meta?", list(listJobs, state.TableJobs, state.TableJobSummaries)},
	{put, "/v1/jobs", "submit-job", "findings", act((*Server).registerJob)},
	{put, "/v1/jobs/parse", "parse-job", nothing, act((*Server).parseJob).where(here)},
	{get, "/v1/jobs/statuses", "read-job", lists + " include_children?", jobStatuses},
	{put, "/v1/jobs/statuses", "read-job", lists + " include_children?", jobStatuses},
	{put, "/v1/validate/job", "read-job", "findings", act((*Server).validateJob)},
	{get, jobPath, "read-job", reads, one(theJob, jobIndex, itself, state.TableJobs).watching(ofJob())},
	{put, jobPath, "submit-job", "findings", act((*Server).registerJob)},
	{del, jobPath, "submit-job", "purge ~global no_shutdown_delay eval_priority", act((*Server).deleteJob)}, // there is only one region
	{put, jobPath + "/evaluate", "submit-job", nothing, act((*Server).evaluateJob)},
	{get, jobPath + "/allocations", "read-job", reads + " all?", rowsOf(state.TableAllocs, allocsOfJob, allocIndex, showAllocs, state.TableJobs, state.TableAllocs).watching(ofJob(state.TableAllocs))},
	{get, jobPath + "/evaluations", "read-job", reads, rowsOf(state.TableEvals, evalsOfJob, evalIndex, showEvals, state.TableJobs, state.TableEvals).watching(ofJob(state.TableEvals))},
	{put, jobPath + "/periodic/force", "submit-job", nothing, act((*Server).forcePeriodic)},
	{put, jobPath + "/plan", "submit-job", "findings", act((*Server).planJob)},
	{get, jobPath + "/summary", "read-job", reads, one(theSummary, summaryIndex, itself, state.TableJobs, state.TableJobSummaries).watching(partsOfJob(state.TableJobSummaries))},
	{put, jobPath + "/dispatch", "dispatch-job", "idempotency_token", act((*Server).dispatchJob)},
	{get, jobPath + "/versions", "read-job", reads + " diffs? diff_version diff_tag", rowsOf(state.TableJobVersions, versionsOfJob, jobIndex, showVersions, state.TableJobs, state.TableJobVersions).watching(partsOfJob(state.TableJobVersions))},
	{put, tagPath, "submit-job", nothing, act((*Server).tagVersion)},
	{del, tagPath, "submit-job", nothing, act((*Server).tagVersion)},
	{put, jobPath + "/revert", "submit-job", nothing, act((*Server).revertJob)},
	{get, jobPath + "/deployments", "read-job", reads + " all?", rowsOf(state.TableDeployments, deploymentsOfJob, deploymentIndex, showDeployments, state.TableJobs, state.TableDeployments).watching(ofJob(state.TableDeployments))},
	{get, jobPath + "/deployment", "read-job", reads, rowsOf(state.TableDeployments, everyDeploymentOfJob, deploymentIndex, showLatestDeployment, state.TableJobs, state.TableDeployments).watching(ofJob(state.TableDeployments))},
	{put, jobPath + "/stable", "submit-job", nothing, act((*Server).stableJob)},
	{get, jobPath + "/services", "read-job", pages, rowsOf(state.TableServices, servicesOfJob, serviceIndex, showServices, state.TableServices).watching(servicesOfJobKey)},
	{get, jobPath + "/actions", "read-job", reads, one(theJob, jobIndex, showActions, state.TableJobs).watching(ofJob())},
	{get, jobPath + "/action", "alloc-exec", "action allocID task group tty ws_handshake", act((*Server).jobAction).changes().where(fromState)},
	{get, jobPath + "/submission", "read-job", reads + " version", one(theSubmission, submissionIndex, itself, state.TableJobs).after(checkVersion).watching(ofJob())},
	{get, jobPath + "/scale", "read-job|read-job-scaling", reads, rowsOf(state.TableAllocs, scaledAllocs, allocIndex, showScale, state.TableJobs, state.TableAllocs, state.TableDeployments, state.TableScalingEvents).
		watching(ofJob(state.TableAllocs, state.TableDeployments, state.TableScalingEvents))},
	{put, jobPath + "/scale", "submit-job|scale-job", nothing, act((*Server).scaleJob)},
	{get, jobPath + "/dispatch/payload", "read-job", reads, one(dispatchedJob, jobIndex, showPayload, state.TableJobs).watching(ofJob())},
	{get, "/v1/scaling/policies", "list-scaling-policies", lists + " job type", list(listScalingPolicies, state.TableJobs)},
	{get, "/v1/scaling/policy/{id}", "read-scaling-policy", reads, one(thePolicy, policyIndex, itself, state.TableJobs)},
	{get, "/v1/services", "read-job", pages, list(listServices, state.TableServices)},
	{get, "/v1/service/{name}", "read-job", pages + " choose", rowsOf(state.TableServices, servicesNamed, serviceIndex, showServices, state.TableServices).after(checkChoice).watching(serviceKey)},
	{del, "/v1/service/{name}/{id}", "submit-job", nothing, act((*Server).deleteService)},
	{put, "/v1/search", "read-job|node:read", reads, listAfter(search, searched...)},
	{put, "/v1/search/fuzzy", "read-job|node:read", reads, listAfter(searchFuzzy, searched...)},
	{get, "/v1/event/stream", "read-job|node:read", "topic index filter", act((*Server).eventStream).streams().where(fromState)},
}

var allocRoutes = []row{
	{get, "/v1/allocations", "read-job", lists + " resources? task_states", list(listAllocs, state.TableAllocs)},
	{get, "/v1/allocation/{id}", "read-job", reads, one(theAlloc, allocIndex, showAlloc, state.TableAllocs).after(isUUID("alloc")).watching(allocKey)},
	{put, "/v1/allocation/{id}/stop", "alloc-lifecycle", "no_shutdown_delay reschedule", act((*Server).stopAlloc)},
	{get, "/v1/allocation/{id}/services", "read-job", pages, rowsOf(state.TableServices, servicesOfAlloc, serviceIndex, showServices, state.TableServices, state.TableAllocs).watching(byPathValue(state.TableServices, state.ByAlloc, "id"))},
	{get, "/v1/evaluations", "read-job", lists + " job status history?", list(listEvals, state.TableEvals)},
	{del, "/v1/evaluations", management, nothing, act((*Server).deleteEvals)},
	{get, "/v1/evaluations/count", "read-job", reads + " prefix filter job status ~per_page ~next_token ~reverse", list(countEvals, state.TableEvals)}, // the count includes all pages
	{get, "/v1/evaluation/{id}", "read-job", reads + " related? history?", one(everEval, everEvalIndex, showEverEval, state.TableEvals).after(isUUID("eval")).watching(byPathValue(state.TableEvals, "", "id"))},
	{get, "/v1/evaluation/{id}/allocations", "read-job", reads, rowsOf(state.TableAllocs, allocsOfEval, allocIndex, showAllocs, state.TableAllocs).watching(byPathValue(state.TableAllocs, state.ByEval, "id"))},
	{get, "/v1/deployments", "read-job", lists + " history?", list(listDeployments, state.TableDeployments)},
	{get, "/v1/deployment/{id}", "read-job", reads + " history?", one(everDeployment, everDeploymentIndex, showEverDeployment, state.TableDeployments).after(isUUID("deployment")).watching(byPathValue(state.TableDeployments, "", "id"))},
	{get, "/v1/deployment/allocations/{id}", "read-job", reads, rowsOf(state.TableAllocs, allocsOfDeployment, allocIndex, showAllocs, state.TableAllocs).watching(byPathValue(state.TableAllocs, state.ByDeployment, "id"))},
	{put, "/v1/deployment/fail/{id}", "submit-job", nothing, act((*Server).failDeployment)},
	{put, "/v1/deployment/pause/{id}", "submit-job", nothing, act((*Server).pauseDeployment)},
	{put, "/v1/deployment/promote/{id}", "submit-job", nothing, act((*Server).promoteDeployment)},
	{put, "/v1/deployment/unblock/{id}", "submit-job", nothing, act((*Server).unblockDeployment)},
	{put, "/v1/deployment/allocation-health/{id}", "submit-job", nothing, act((*Server).deploymentHealth)},
}

var nodeRoutes = []row{
	{get, "/v1/nodes", "node:read", lists + " resources? os?", list(listNodes, state.TableNodes)},
	{get, "/v1/node/pools", "node_pool:read", lists, list(listNodePools, state.TableNodePools)},
	{put, "/v1/node/pools", "node_pool:write", nothing, act((*Server).putNodePool)},
	{get, "/v1/node/pool/{name}", "node_pool:read", reads, one(thePool, poolIndex, showPool, state.TableNodePools)},
	{put, "/v1/node/pool/{name}", "node_pool:write", nothing, act((*Server).putNodePool)},
	{del, "/v1/node/pool/{name}", "node_pool:delete", nothing, act((*Server).deleteNodePool)},
	{get, "/v1/node/pool/{name}/jobs", "node_pool:read,read-job", lists + " meta?", list(listPoolJobs, state.TableJobs, state.TableJobSummaries)},
	{get, "/v1/node/pool/{name}/nodes", "node_pool:read,node:read", lists + " resources? os?", list(listPoolNodes, state.TableNodes)},
	{get, "/v1/node/{id}", "node:read", reads, one(theNode, nodeIndex, showNode, state.TableNodes).after(isUUID("node")).watching(byPathValue(state.TableNodes, "", "id"))},
	{get, "/v1/node/{id}/allocations", "node:read,read-job", reads, rowsOf(state.TableAllocs, allocsOfNode, allocIndex, showAllocDetails, state.TableAllocs).watching(byPathValue(state.TableAllocs, state.ByNode, "id"))},
	{put, "/v1/node/{id}/drain", "node:write", nothing, act((*Server).drainNode)},
	{put, "/v1/node/{id}/eligibility", "node:write", nothing, act((*Server).nodeEligibility)},
	{put, "/v1/node/{id}/evaluate", "node:write", nothing, act((*Server).evaluateNode)},
	{put, "/v1/node/{id}/purge", "node:write", nothing, act((*Server).purgeNode)},
}

var clusterRoutes = []row{
	{get, "/v1/namespaces", "namespace:*", lists, list(listNamespaces, state.TableNamespaces)}, // namespaces in which the token may do anything
	{put, "/v1/namespace", management, nothing, act((*Server).putNamespace)},
	{get, "/v1/namespace/{name}", "namespace:*", reads, one(theNamespace, namespaceIndex, showNamespace, state.TableNamespaces)},
	{put, "/v1/namespace/{name}", management, nothing, act((*Server).putNamespace)},
	{del, "/v1/namespace/{name}", management, nothing, act((*Server).deleteNamespace)},
	{put, "/v1/system/gc", management, nothing, act((*Server).systemGC)},
	{put, "/v1/system/reconcile/summaries", management, nothing, act((*Server).reconcileSummaries)},
	{get, "/v1/status/leader", anonymous, "~stale", act((*Server).statusLeader).where(here)}, // as this server knows it
	{get, "/v1/status/peers", anonymous, "~stale", act((*Server).statusPeers).where(here)},
	{get, "/v1/regions", anonymous, "~stale", act((*Server).regions).where(here)},
	{get, "/v1/operator/raft/configuration", "operator:read", "stale", act((*Server).raftConfiguration)},
	{del, "/v1/operator/raft/peer", "operator:write", "id address", act((*Server).removeRaftPeer)},
	{put, "/v1/operator/raft/transfer-leadership", "operator:write", "id address", act((*Server).transferLeadership)},
	{get, "/v1/operator/autopilot/configuration", "operator:read", "stale", act((*Server).autopilotConfiguration)},
	{put, "/v1/operator/autopilot/configuration", "operator:write", "cas", act((*Server).putAutopilotConfiguration)},
	{get, "/v1/operator/autopilot/health", "operator:read", "~stale", act((*Server).autopilotHealth)}, // only the leader knows it
	{get, "/v1/operator/upgrade-check/vault-workload-identity", "operator:read", reads, list(vaultUpgradeCheck, state.TableJobs)},
	{get, "/v1/operator/scheduler/configuration", "operator:read", reads, one(theSchedulerConfig, schedulerConfigIndex, showSchedulerConfig, state.TableSchedulerConfig)},
	{get, "/v1/operator/scheduler/queue", "operator:read", nothing, act((*Server).queueLanes)}, // only the leader has it
	{put, "/v1/operator/scheduler/configuration", "operator:write", "cas", act((*Server).putSchedulerConfig)},
	{get, "/v1/operator/snapshot", management, "stale", act((*Server).saveSnapshot).streams()},
	{put, "/v1/operator/snapshot", management, nothing, act((*Server).restoreSnapshot).upTo(maxSnapshotBytes).streams()},
	{get, "/v1/operator/snapshot/schedule", "operator:read", nothing, act((*Server).snapshotSchedule)},
	{get, "/v1/operator/state/digest", "operator:read", nothing, act((*Server).stateDigest).where(fromState)}, // of the server that is asked
	{get, "/v1/operator/keyring/keys", management, pages, list(listKeys, state.TableRootKeys)},
	{put, "/v1/acl/identity/client-introduction-token", "node:write", nothing, act((*Server).introduceNode)},
	{put, "/v1/operator/keyring/rotate", management, "full algo algorithm publish_time", act((*Server).rotateKey)},
	{del, "/v1/operator/keyring/key/{id}", management, "force", act((*Server).removeKey)},
	{get, "/.well-known/openid-configuration", anonymous, "~stale", act((*Server).oidcDiscovery).where(here)},
	{get, "/.well-known/jwks.json", anonymous, reads, list(publicKeys, state.TableRootKeys)},
	{get, "/v1/vars", "variables:list", lists, list(listVariables, state.TableVariables)},
	{get, "/v1/var/{path...}", "variables:read", reads, one(theVariable, variableIndex, openVariable, state.TableVariables).watching(variableKey)},
	{put, "/v1/var/{path...}", "variables:write", "cas lock-acquire lock-release lock-renew", act((*Server).putVariable)},
	{del, "/v1/var/{path...}", "variables:destroy", "cas lock-id", act((*Server).deleteVariable)},
	{get, "/v1/agent/members", "node:read", nothing, act((*Server).agentMembers).where(here)},
	{put, "/v1/agent/join", "agent:write", "address", act((*Server).agentJoin).where(here)},
	{put, "/v1/agent/force-leave", "agent:write", "node prune", act((*Server).agentForceLeave).where(here)},
	{get, "/v1/agent/keyring/list", "agent:write", nothing, act(gossipKeys("list")).where(here)},
	{put, "/v1/agent/keyring/install", "agent:write", nothing, act(gossipKeys("install")).where(here)},
	{put, "/v1/agent/keyring/use", "agent:write", nothing, act(gossipKeys("use")).where(here)},
	{put, "/v1/agent/keyring/remove", "agent:write", nothing, act(gossipKeys("remove")).where(here)},
	{get, "/v1/agent/schedulers", "agent:read", nothing, act((*Server).listSchedulers).where(here)},
	{get, "/v1/agent/schedulers/config", "agent:read", nothing, act((*Server).schedulersConfig).where(here)},
	{put, "/v1/agent/schedulers/config", "agent:write", nothing, act((*Server).putSchedulersConfig).where(here)},
}

// pluginRoutes are additions of Drover to the API.
var pluginRoutes = []row{
	{get, "/v1/registry/plugins", "operator:read", lists, list(listPluginSpecs, state.TablePluginSpecs)},
	{get, "/v1/registry/plugin/{name}", "operator:read", reads + " reveal?", one(thePluginSpec, pluginSpecIndex, showPluginSpec, state.TablePluginSpecs).watching(byPathValue(state.TablePluginSpecs, "", "name"))},
	{put, "/v1/registry/plugin/{name}", "operator:write", "cas", act((*Server).registerPlugin)},
	{del, "/v1/registry/plugin/{name}", "operator:write", "cas", act((*Server).deregisterPlugin)},
	{put, "/v1/registry/plugin/{name}/rollout", "operator:write", nothing, act((*Server).steerPluginRollout)},
	{get, "/v1/registry/plugin/{name}/nodes", "operator:read,node:read", lists, list(listPluginNodes, state.TablePluginSpecs, state.TableNodes)},
	{get, "/v1/registry/file/{digest}", "operator:read", nothing, act((*Server).pluginFile)},
	{put, "/v1/registry/file/{digest}", "operator:write", nothing, act((*Server).uploadPluginFile).upTo(maxPluginFileBytes + 1)},
	{get, "/v1/schemas/drivers", "node:read", pages, list(listDriverSchemas, state.TableDriverSchemas, state.TableNodes)},
	{get, "/v1/schemas/driver/{name}", "node:read", reads, list(driverSchemas, state.TableDriverSchemas, state.TableNodes)},
}

// localRoutes are the routes that every agent answers itself.
var localRoutes = slices.Concat(agentRoutes, clientRoutes)

var agentRoutes = answered(here, []row{
	{get, "/v1/agent/self", "agent:read", nothing, act((*Server).agentSelf)},
	{get, "/v1/agent/servers", "agent:read", nothing, act((*Server).agentServers)},
	{put, "/v1/agent/servers", "agent:write", "address", act((*Server).setAgentServers)},
	{get, "/v1/agent/health", anonymous, "type", act((*Server).agentHealth)},
	{get, "/v1/agent/host", "agent:read", agents, act(thatAgent(debugOnly((*Server).agentHost)))},
	{put, "/v1/agent/reload", "agent:write", nothing, act((*Server).agentReload)},
	{get, "/v1/agent/pprof/{kind}", "agent:write", agents + " seconds ~debug ~gc", act(thatAgent(debugOnly((*Server).agentProfile))).streams()}, // net/http/pprof reads them
	{get, "/v1/agent/monitor", "agent:read", agents + " log_level log_json log_include_location plain", act(thatAgent((*Server).agentMonitor)).streams()},
	{get, "/v1/agent/monitor/export", "agent:read", agents + " on_disk follow service_name logs_since plain", act(thatAgent((*Server).exportLogs)).streams()},
	{get, "/v1/agent/plugins", "agent:read", "node_id", act((*Server).agentPlugins)},
	{get, "/v1/agent/plugin/{name}", "agent:read", "node_id", act((*Server).agentPlugin)},
	{del, "/v1/agent/plugin/{name}", "agent:write", "node_id force", act((*Server).removeAgentPlugin)},
	{put, "/v1/agent/plugin/{name}/{action}", "agent:write", "node_id detach digest version config", act((*Server).changeAgentPlugin).upTo(maxPluginBytes)},
	{get, "/v1/metrics", anonymous, "format histograms", act((*Server).metrics)},
})

var clientRoutes = answered(fromState, []row{
	{get, "/v1/client/stats", "node:read", "node_id", act((*Server).clientStats)},
	{get, "/v1/client/cluster", "node:read", "node_id", act((*Server).nodeCluster)},
	{put, "/v1/client/cluster", "node:write", "node_id", act((*Server).trustCluster)},
	{get, "/v1/client/identity", "node:read", "node_id", act((*Server).nodeIdentity)},
	{put, "/v1/client/identity/renew", "node:write", "node_id", act((*Server).renewIdentity)},
	{get, "/v1/client/gc", "node:write", "node_id", act((*Server).clientGC).changes()},
	{put, "/v1/client/gc", "node:write", "node_id", act((*Server).clientGC)},
	{get, "/v1/client/metadata", "node:read", "node_id", act((*Server).nodeMeta)},
	{put, "/v1/client/metadata", "node:write", "node_id", act((*Server).putNodeMeta)},
	{get, "/v1/client/allocation/{id}/stats", "read-job", "task", act((*Server).allocStats)},
	{get, "/v1/client/allocation/{id}/checks", "read-job", nothing, act((*Server).allocChecks)},
	{get, "/v1/client/allocation/{id}/tasks", "read-job", nothing, act((*Server).allocTasks)},
	{put, "/v1/client/allocation/{id}/restart", "alloc-lifecycle", nothing, act((*Server).restartAlloc)},
	{put, "/v1/client/allocation/{id}/signal", "alloc-lifecycle", nothing, act((*Server).signalAlloc)},
	{put, "/v1/client/allocation/{id}/freeze", "alloc-lifecycle", nothing, act((*Server).freezeAlloc)},
	{put, "/v1/client/allocation/{id}/thaw", "alloc-lifecycle", nothing, act((*Server).thawAlloc)},
	{get, "/v1/client/allocation/{id}/pause", "read-job", "task", act((*Server).allocSchedule)},
	{put, "/v1/client/allocation/{id}/pause", "alloc-lifecycle", nothing, act((*Server).directAlloc)},
	{get, "/v1/client/allocation/{id}/gc", "submit-job", nothing, act((*Server).gcAlloc).changes()},
	{put, "/v1/client/allocation/{id}/gc", "submit-job", nothing, act((*Server).gcAlloc)},
	{get, "/v1/client/allocation/{id}/exec", "alloc-exec", "task action job command user dir env tty ws_handshake", act((*Server).execAlloc).changes()},
	{get, "/v1/client/fs/ls/{id}", "read-fs", "path", act((*Server).listFiles)},
	{get, "/v1/client/fs/stat/{id}", "read-fs", "path", act((*Server).statFile)},
	{get, "/v1/client/fs/cat/{id}", "read-fs", "path", act((*Server).catFile)},
	{get, "/v1/client/fs/readat/{id}", "read-fs", "path offset limit", act((*Server).readFileAt)},
	{get, "/v1/client/fs/stream/{id}", "read-fs", "path offset origin follow plain", act((*Server).streamFile).streams()},
	{get, "/v1/client/fs/logs/{id}", "read-logs|read-fs", "task type offset origin follow plain", act((*Server).streamLogs).streams()},
})

// errSoldSeparately is the text by which clients recognize that a server lacks a
// feature, so Drover uses it too until it has the feature.
const errSoldSeparately = "Nomad Enterprise only endpoint"

// absentRoutes are the routes of features that this cluster does not have. They refuse
// every request and disclose nothing, so they need no capability.
var absentRoutes = []row{
	{anyVerb, "/v1/acl/{rest...}", anonymous, anything, refuse(http.StatusBadRequest, "ACL support disabled")},
	{anyVerb, "/v1/quotas", anonymous, anything, refuse(http.StatusNotImplemented, errSoldSeparately)},
	{anyVerb, "/v1/quota/{rest...}", anonymous, anything, refuse(http.StatusNotImplemented, errSoldSeparately)},
	{anyVerb, "/v1/recommendations", anonymous, anything, refuse(http.StatusNotImplemented, errSoldSeparately)},
	{anyVerb, "/v1/recommendation/{rest...}", anonymous, anything, refuse(http.StatusNotImplemented, errSoldSeparately)},
	{anyVerb, "/v1/operator/license", anonymous, anything, refuse(http.StatusNotImplemented, errSoldSeparately)},
	{anyVerb, "/v1/operator/utilization", anonymous, anything, refuse(http.StatusNotImplemented, errSoldSeparately)},
}

func refuse(status int, text string) *action {
	return act(func(*Server, http.ResponseWriter, *http.Request) (any, error) { return nil, fail(status, text) }).where(here)
}

// debugRoutes are for an agent whose operator has enabled them.
var debugRoutes = []row{
	{anyVerb, "/debug/pprof/", "agent:write", anything, std(pprof.Index)},
	{anyVerb, "/debug/pprof/cmdline", "agent:write", anything, std(pprof.Cmdline)},
	{anyVerb, "/debug/pprof/profile", "agent:write", anything, std(pprof.Profile)},
	{anyVerb, "/debug/pprof/symbol", "agent:write", anything, std(pprof.Symbol)},
	{anyVerb, "/debug/pprof/trace", "agent:write", anything, std(pprof.Trace)},
}

// std is the action of a handler of the standard library.
func std(h http.HandlerFunc) *action {
	return act(func(_ *Server, w http.ResponseWriter, r *http.Request) (any, error) { h(w, r); return done, nil }).where(here)
}
