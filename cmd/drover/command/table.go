// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"maps"
	"slices"
)

// groups are names that only have subcommands, with their descriptions.
var groups = map[string]string{
	"alloc": "Work with allocations", "config": "Check the configuration files of agents", "deployment": "Work with deployments",
	"eval": "Work with evaluations", "job": "Work with jobs", "job periodic": "Work with periodic jobs", "job tag": "Tag versions of jobs",
	"namespace": "Work with namespaces", "node": "Work with nodes", "node meta": "Work with the metadata of a node",
	"node identity": "Work with the identities of nodes", "node intro": "Introduce nodes to the cluster",
	"node pool": "Work with node pools", "operator": "Tools for operators", "operator autopilot": "Manage the servers of the cluster automatically (autopilot)",
	"operator gossip": "Work with the gossip protocol of servers", "operator gossip keyring": "Work with the keys of gossip encryption",
	"operator raft": "Work with raft, the servers' consensus", "operator root": "Work with the root keys of servers",
	"operator root keyring": "Work with the root keys, which encrypt variables and sign identities", "operator scheduler": "Work with the scheduler",
	"operator snapshot": "Save, inspect and restore the state of servers", "plugin": "Work with plugins", "scaling": "Work with scaling of jobs",
	"scaling policy": "Work with scaling policies", "server": "Work with servers", "service": "Work with services",
	"system": "Work with the system", "system reconcile": "Recompute derived state",
	"tls": "Make and describe certificates", "tls ca": "Work with the certificate authority of a cluster", "tls cert": "Work with the certificates of machines and users", "var": "Work with variables",
	"volume": "Work with volumes", "volume claim": "Work with the claims of allocations on sticky volumes", "volume snapshot": "Work with snapshots of volumes",
}

// aliases are other names of commands: short ones, and former names.
var aliases = map[string]string{
	"run": "job run", "stop": "job stop", "start": "job start", "plan": "job plan", "validate": "job validate", "inspect": "job inspect",
	"init": "job init", "action": "job action", "exec": "alloc exec", "logs": "alloc logs", "fs": "alloc fs",
	"alloc-status": "alloc status", "eval-status": "eval status", "node-status": "node status", "node-drain": "node drain",
	"client-config": "node config", "server-members": "server members", "server-join": "server join",
	"server-force-leave": "server force-leave", "keygen": "operator gossip keyring generate", "check": "agent-info",
}

// Hidden lists the commands that work but are not listed by help.
func Hidden() []string {
	out := []string{"alloc-status", "eval-status", "node-status", "node-drain", "client-config", "server-members", "server-join", "server-force-leave", "keygen", "check"}
	return append(out, slices.Sorted(maps.Keys(absentCommands()))...)
}

// specs returns all subcommands by name.
func specs() map[string]func() spec {
	all := map[string]func() spec{
		"job action": jobAction, "job allocs": jobAllocs, "job deployments": jobDeployments, "job dispatch": jobDispatch,
		"job eval": jobEval, "job explain": jobExplain, "job history": jobHistory, "job init": jobInit, "job inspect": jobInspect,
		"job periodic force": jobPeriodicForce, "job plan": jobPlan, "job promote": jobPromote, "job restart": jobRestart,
		"job revert": jobRevert, "job run": jobRun, "job scale": jobScale, "job scaling-events": jobScalingEvents,
		"job start": jobStart, "job status": jobStatus, "job stop": jobStop, "job tag apply": jobTagApply,
		"job tag unset": jobTagUnset, "job validate": jobValidate,

		"alloc checks": allocChecks, "alloc exec": allocExec, "alloc explain": allocExplain, "alloc fs": allocFS, "alloc logs": allocLogs, "alloc pause": allocPause,
		"alloc freeze": allocFreeze, "alloc thaw": allocThaw, "alloc restart": allocRestart, "alloc signal": allocSignal, "alloc status": allocStatus, "alloc stop": allocStop,

		"node config": nodeConfig, "node drain": nodeDrain, "node eligibility": nodeEligibility, "node explain": nodeExplain,
		"node identity get": nodeIdentityGet, "node identity renew": nodeIdentityRenew, "node intro create": nodeIntroCreate,
		"node meta apply": nodeMetaApply, "node meta read": nodeMetaRead, "node status": nodeStatus, "node trust": nodeTrust,
		"node pool apply": nodePoolApply, "node pool delete": nodePoolDelete, "node pool info": nodePoolInfo,
		"node pool init": nodePoolInit, "node pool jobs": nodePoolJobs, "node pool list": nodePoolList, "node pool nodes": nodePoolNodes,

		"eval delete": evalDelete, "eval explain": evalExplain, "eval list": evalList, "eval status": evalStatus,

		"deployment explain": deploymentExplain, "deployment fail": deploymentFail, "deployment list": deploymentList, "deployment pause": deploymentPause,
		"deployment promote": deploymentPromote, "deployment resume": deploymentResume,
		"deployment status": deploymentStatus, "deployment unblock": deploymentUnblock,

		"namespace apply": namespaceApply, "namespace delete": namespaceDelete, "namespace inspect": namespaceInspect,
		"namespace list": namespaceList, "namespace status": namespaceStatus,

		"agent-info": agentInfo, "monitor": monitorAgent, "monitor export": monitorExport, "config validate": configValidate,
		"server members": serverMembers, "server join": serverJoin, "server force-leave": serverForceLeave,

		"operator api": operatorAPI, "operator metrics": operatorMetrics, "operator debug": operatorDebug, "operator simulate": operatorSimulate,

		"operator raft list-peers": raftListPeers, "operator raft remove-peer": raftRemovePeer,
		"operator raft info": raftInfo, "operator raft logs": raftLogs, "operator raft state": raftState, "operator client-state": operatorClientState,
		"operator raft transfer-leadership": raftTransferLeadership,
		"operator autopilot get-config":     autopilotGet, "operator autopilot set-config": autopilotSet, "operator autopilot health": autopilotHealth,
		"operator scheduler get-config": schedulerGet, "operator scheduler queue": schedulerQueue, "operator scheduler set-config": schedulerSet,
		"operator snapshot save": snapshotSave, "operator snapshot restore": snapshotRestore,
		"operator snapshot agent": snapshotAgent, "operator snapshot status": snapshotStatus,
		"operator snapshot inspect": snapshotInspect, "operator snapshot state": snapshotState,
		"operator gossip keyring generate": gossipGenerate, "operator gossip keyring list": gossipList,
		"operator gossip keyring install": gossipKeys("install", "Adds a key to the gossip of all servers", "Installed the key"),
		"operator gossip keyring use":     gossipKeys("use", "Makes all servers encrypt their gossip with an installed key", "The key encrypts"),
		"operator gossip keyring remove":  gossipKeys("remove", "Removes a key that does not encrypt from all servers", "Removed the key"),
		"operator root keyring list":      keyringList, "operator root keyring rotate": keyringRotate, "operator root keyring remove": keyringRemove,

		"plugin check": pluginCheck, "plugin new": pluginNew, "plugin proto": pluginProto, "plugin run": pluginRun,

		"plugin register": pluginRegister, "plugin deregister": pluginDeregister, "plugin registry": pluginRegistry, "plugin rollout": pluginRollout,
		"plugin list": pluginList, "plugin status": pluginStatus, "plugin install": pluginInstall, "plugin upgrade": pluginUpgrade, "plugin remove": pluginRemove,
		"plugin rollback": pluginAction("rollback", "Returns a plugin of a node to its previous version",
			"The node keeps the previous version. It is started and checked in the same way as a new version.", "was rolled back to version %s and is %s"),
		"plugin disable": pluginAction("disable", "Disables a plugin of a node: it accepts no new tasks",
			"Its tasks keep running and stay manageable; its process ends with the last task. The plugin stays disabled across restarts of the agent.", "(version %s) is %s"),
		"plugin enable": pluginAction("enable", "Enables a plugin of a node that was disabled", "", "(version %s) is %s"),
		"plugin reload": pluginAction("reload", "Restarts the process of a plugin of a node, without ending its tasks",
			"The new process starts beside the running one, which stays if the new process does not become ready. A plugin that waits for its\nnext start is started at once, and versions that failed may be tried again.", "(version %s) was restarted and is %s"),

		"scaling policy info": scalingInfo, "scaling policy list": scalingList,
		"service delete": serviceDelete, "service info": serviceInfo, "service list": serviceList,

		"tls ca create": tlsCACreate, "tls ca info": tlsInfo("tls ca info [options] <CA file>", "Describes the certificate of an authority", true),
		"tls cert create": tlsCertCreate, "tls cert info": tlsInfo("tls cert info [options] <certificate file>", "Describes the certificate of a machine or a user", false),

		"var get": varGet, "var init": varInit, "var list": varList, "var lock": varLock, "var purge": varPurge, "var put": varPut,

		"volume claim delete": volumeClaimDelete, "volume claim list": volumeClaimList, "volume create": volumeCreate, "volume delete": volumeDelete,
		"volume deregister": volumeDeregister, "volume detach": volumeDetach, "volume snapshot create": volumeSnapshotCreate,
		"volume snapshot delete": volumeSnapshotDelete, "volume snapshot list": volumeSnapshotList, "volume init": volumeInit, "volume register": volumeRegister, "volume status": volumeStatus,

		"status": status, "ui": ui, "system gc": systemGC, "system reconcile summaries": reconcileSummaries,
		"version": version, "fmt": format, "completion": completion,
	}
	maps.Copy(all, absentCommands())
	return all
}
