// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/drover-project/drover/core/state"
)

// verbs are the handlers of one path by method. A method with a nil handler is
// answered with 405. PUT and POST are equivalent, as clients expect.
type verbs struct {
	get, put, del handler
}

func (v verbs) pick(method string) handler {
	switch method {
	case http.MethodGet, http.MethodHead:
		return v.get
	case http.MethodPut, http.MethodPost:
		return v.put
	case http.MethodDelete:
		return v.del
	}
	return nil
}

func (s *Server) mount(mux *http.ServeMux, pattern string, v verbs) {
	s.mountUpTo(mux, pattern, maxBodyBytes, v)
}

// mountUpTo mounts a path with another limit for the size of the body.
func (s *Server) mountUpTo(mux *http.ServeMux, pattern string, limit int64, v verbs) {
	v = s.taking(pattern, v)
	mux.HandleFunc(pattern, s.serveUpTo(limit, func(w http.ResponseWriter, r *http.Request) (any, error) {
		h := v.pick(r.Method)
		if h == nil {
			return nil, errMethod
		}
		return h(w, r)
	}))
}

// routes mounts all routes of a server, area by area.
func (s *Server) routes(mux *http.ServeMux) {
	mux.HandleFunc("/", unknownRoute)
	s.jobRoutes(mux)
	s.allocRoutes(mux)
	s.nodeRoutes(mux)
	s.clusterRoutes(mux)
	s.localRoutes(mux)
	s.membershipRoutes(mux)
	s.schedulerRoutes(mux)
	s.variableRoutes(mux)
	s.snapshotRoutes(mux)
	s.keyringRoutes(mux)
	s.registryRoutes(mux)
	s.schemaRoutes(mux)
	s.absentRoutes(mux)
}

// localRoutes mounts the routes that every agent answers itself.
func (s *Server) localRoutes(mux *http.ServeMux) {
	s.agentRoutes(mux)
	s.clientRoutes(mux)
	s.inspectionRoutes(mux)
}

func unknownRoute(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

func (s *Server) jobRoutes(mux *http.ServeMux) {
	s.mount(mux, "/v1/jobs", verbs{get: s.listJobs, put: s.registerJob})
	s.mount(mux, "/v1/jobs/parse", verbs{put: s.parseJob})
	s.mount(mux, "/v1/jobs/statuses", verbs{get: s.jobStatuses, put: s.jobStatuses})
	s.mount(mux, "/v1/validate/job", verbs{put: s.validateJob})
	mux.HandleFunc("/v1/job/{rest...}", s.serve(s.jobByPath))
	for suffix, of := range s.jobVerbs() {
		s.taking(jobPattern+suffix, of("")) // panics now, not at the first request, if a path has no row
	}
	s.mount(mux, "/v1/scaling/policies", verbs{get: s.listScalingPolicies})
	s.mount(mux, "/v1/scaling/policy/{id}", verbs{get: s.scalingPolicy})
	s.mount(mux, "/v1/services", verbs{get: s.listServices})
	s.mount(mux, "/v1/service/{name}", verbs{get: s.serviceByName})
	s.mount(mux, "/v1/search", verbs{put: s.search})
	s.mount(mux, "/v1/search/fuzzy", verbs{put: s.searchFuzzy})
	s.mount(mux, "/v1/event/stream", verbs{get: s.eventStream})
}

func (s *Server) allocRoutes(mux *http.ServeMux) {
	s.mount(mux, "/v1/allocations", verbs{get: s.listAllocs})
	s.mount(mux, "/v1/allocation/{id}", verbs{get: s.allocByID})
	s.mount(mux, "/v1/allocation/{id}/stop", verbs{put: s.stopAlloc})
	s.mount(mux, "/v1/allocation/{id}/services", verbs{get: s.allocServices})
	s.mount(mux, "/v1/evaluations", verbs{get: s.listEvals, del: s.deleteEvals})
	s.mount(mux, "/v1/evaluations/count", verbs{get: s.countEvals})
	s.mount(mux, "/v1/evaluation/{id}", verbs{get: s.evalByID})
	s.mount(mux, "/v1/evaluation/{id}/allocations", verbs{get: s.evalAllocs})
	s.mount(mux, "/v1/deployments", verbs{get: s.listDeployments})
	s.mount(mux, "/v1/deployment/{id}", verbs{get: s.deploymentByID})
	s.mount(mux, "/v1/deployment/allocations/{id}", verbs{get: s.deploymentAllocs})
	s.mount(mux, "/v1/deployment/fail/{id}", verbs{put: s.failDeployment})
	s.mount(mux, "/v1/deployment/pause/{id}", verbs{put: s.pauseDeployment})
	s.mount(mux, "/v1/deployment/promote/{id}", verbs{put: s.promoteDeployment})
	s.mount(mux, "/v1/deployment/unblock/{id}", verbs{put: s.unblockDeployment})
	s.mount(mux, "/v1/deployment/allocation-health/{id}", verbs{put: s.deploymentHealth})
}

func (s *Server) nodeRoutes(mux *http.ServeMux) {
	s.mount(mux, "/v1/nodes", verbs{get: s.listNodes})
	s.mount(mux, "/v1/node/pools", verbs{get: s.listNodePools, put: s.putNodePool})
	// The mux sees a conflict with a node called "pool". Node ids are UUIDs, so there
	// is none.
	pools := http.NewServeMux()
	pools.HandleFunc("/", unknownRoute)
	s.mount(pools, "/v1/node/pool/{name}", verbs{get: s.nodePoolByName, put: s.putNodePool, del: s.deleteNodePool})
	s.mount(pools, "/v1/node/pool/{name}/jobs", verbs{get: s.nodePoolJobs})
	s.mount(pools, "/v1/node/pool/{name}/nodes", verbs{get: s.nodePoolNodes})
	nodes := http.NewServeMux()
	nodes.HandleFunc("/", unknownRoute)
	s.mount(nodes, "/v1/node/{id}", verbs{get: s.nodeByID})
	s.mount(nodes, "/v1/node/{id}/allocations", verbs{get: s.nodeAllocs})
	s.mount(nodes, "/v1/node/{id}/drain", verbs{put: s.drainNode})
	s.mount(nodes, "/v1/node/{id}/eligibility", verbs{put: s.nodeEligibility})
	s.mount(nodes, "/v1/node/{id}/evaluate", verbs{put: s.evaluateNode})
	s.mount(nodes, "/v1/node/{id}/purge", verbs{put: s.purgeNode})
	mux.HandleFunc("/v1/node/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/node/pool/") {
			pools.ServeHTTP(w, r)
			return
		}
		nodes.ServeHTTP(w, r)
	})
}

func (s *Server) clusterRoutes(mux *http.ServeMux) {
	s.mount(mux, "/v1/namespaces", verbs{get: s.listNamespaces})
	s.mount(mux, "/v1/namespace", verbs{put: s.putNamespace})
	s.mount(mux, "/v1/namespace/{name}", verbs{get: s.namespaceByName, put: s.putNamespace, del: s.deleteNamespace})
	s.mount(mux, "/v1/system/gc", verbs{put: s.systemGC})
	s.mount(mux, "/v1/system/reconcile/summaries", verbs{put: s.reconcileSummaries})
	s.mount(mux, "/v1/status/leader", verbs{get: s.statusLeader})
	s.mount(mux, "/v1/status/peers", verbs{get: s.statusPeers})
	s.mount(mux, "/v1/regions", verbs{get: s.regions})
	s.mount(mux, "/v1/operator/raft/configuration", verbs{get: s.raftConfiguration})
	s.mount(mux, "/v1/operator/raft/peer", verbs{del: s.removeRaftPeer})
	s.mount(mux, "/v1/operator/raft/transfer-leadership", verbs{put: s.transferLeadership})
	s.mount(mux, "/v1/operator/autopilot/configuration", verbs{get: s.autopilotConfiguration, put: oneServerOnly})
	s.mount(mux, "/v1/operator/upgrade-check/vault-workload-identity", verbs{get: s.vaultUpgradeCheck})
	s.mount(mux, "/v1/operator/autopilot/health", verbs{get: s.autopilotHealth})
	s.mount(mux, "/v1/operator/scheduler/configuration", verbs{get: s.schedulerConfig, put: s.putSchedulerConfig})
}

func (s *Server) agentRoutes(mux *http.ServeMux) {
	s.mount(mux, "/v1/agent/self", verbs{get: s.agentSelf})
	s.mount(mux, "/v1/agent/servers", verbs{get: s.agentServers})
	s.mount(mux, "/v1/agent/health", verbs{get: s.agentHealth})
	s.mount(mux, "/v1/metrics", verbs{get: s.metrics})
	s.mount(mux, "/v1/agent/plugins", verbs{get: s.agentPlugins})
	s.mount(mux, "/v1/agent/plugin/{name}", verbs{get: s.agentPlugin, del: s.removeAgentPlugin})
	s.mountUpTo(mux, "/v1/agent/plugin/{name}/{action}", maxPluginBytes, verbs{put: s.changeAgentPlugin})
}

func (s *Server) membershipRoutes(mux *http.ServeMux) {
	s.mount(mux, "/v1/agent/members", verbs{get: s.agentMembers})
	s.mount(mux, "/v1/agent/join", verbs{put: s.agentJoin})
	s.mount(mux, "/v1/agent/force-leave", verbs{put: s.agentForceLeave})
}

func (s *Server) clientRoutes(mux *http.ServeMux) {
	s.mount(mux, "/v1/client/stats", verbs{get: s.clientStats})
	s.mount(mux, "/v1/client/metadata", verbs{get: s.nodeMeta, put: s.putNodeMeta})
	s.mount(mux, "/v1/client/cluster", verbs{get: s.nodeCluster, put: s.trustCluster})
	s.mount(mux, "/v1/client/gc", verbs{get: s.clientGC, put: s.clientGC})
	s.mount(mux, "/v1/client/allocation/{id}/stats", verbs{get: s.allocStats})
	s.mount(mux, "/v1/client/allocation/{id}/checks", verbs{get: s.allocChecks})
	s.mount(mux, "/v1/client/allocation/{id}/restart", verbs{put: s.restartAlloc})
	s.mount(mux, "/v1/client/allocation/{id}/signal", verbs{put: s.signalAlloc})
	s.mount(mux, "/v1/client/allocation/{id}/gc", verbs{get: s.gcAlloc, put: s.gcAlloc})
	s.mount(mux, "/v1/client/allocation/{id}/exec", verbs{get: s.execAlloc})
	s.mount(mux, "/v1/client/fs/ls/{id}", verbs{get: s.listFiles})
	s.mount(mux, "/v1/client/fs/stat/{id}", verbs{get: s.statFile})
	s.mount(mux, "/v1/client/fs/cat/{id}", verbs{get: s.catFile})
	s.mount(mux, "/v1/client/fs/readat/{id}", verbs{get: s.readFileAt})
	s.mount(mux, "/v1/client/fs/stream/{id}", verbs{get: s.streamFile})
	s.mount(mux, "/v1/client/fs/logs/{id}", verbs{get: s.streamLogs})
}

func oneServerOnly(http.ResponseWriter, *http.Request) (any, error) {
	return nil, fail(http.StatusNotImplemented, "this version of drover has one server: there is nothing for autopilot to do, and nothing of it to set")
}

// errSoldSeparately is the text by which clients recognize that a server lacks a
// feature, so Drover uses it too until it has the feature.
const errSoldSeparately = "Nomad Enterprise only endpoint"

// absentRoutes mounts routes of features that this cluster does not have.
func (s *Server) absentRoutes(mux *http.ServeMux) {
	refuse := func(status int, text string, paths ...string) {
		h := func(http.ResponseWriter, *http.Request) (any, error) { return nil, fail(status, text) }
		for _, path := range paths { // the answer does not depend on the request
			mux.HandleFunc(path, s.serve(h))
		}
	}
	refuse(http.StatusBadRequest, "ACL support disabled", "/v1/acl/{rest...}")
	none := func(w http.ResponseWriter, r *http.Request) (any, error) {
		return s.read(w, r, nil, func(v View, _ *query) answer { return answer{index: v.TableIndex(state.TableNodes), value: []any{}} })
	}
	for _, path := range []string{"/v1/volumes", "/v1/plugins"} {
		s.mount(mux, path, verbs{get: none})
	}
	refuse(http.StatusNotImplemented, errSoldSeparately, "/v1/quotas", "/v1/quota/{rest...}", "/v1/recommendations", "/v1/recommendation/{rest...}",
		"/v1/operator/license", "/v1/operator/utilization")
	refuse(http.StatusNotFound, "volume not found", "/v1/volume/csi/{rest...}", "/v1/volume/host/{rest...}")
	refuse(http.StatusNotFound, "plugin not found", "/v1/plugin/csi/{rest...}")
	refuse(http.StatusNotImplemented, "this version of drover has one server and thus no gossip to encrypt; the keys of variables are at /v1/operator/keyring", "/v1/agent/keyring/{rest...}")
	refuse(http.StatusNotFound, "OIDC Discovery endpoint disabled", "/.well-known/openid-configuration")
}

func debugRoutes(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}
