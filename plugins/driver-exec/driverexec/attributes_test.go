// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/schema"
)

// proof lists the tests that prove that an attribute has an effect, or says why
// there are none.
type proof struct {
	tests  []func(*testing.T)
	reason string
}

func by(tests ...func(*testing.T)) proof { return proof{tests: tests} }

func because(reason string) proof { return proof{reason: reason} }

// attributes are all attributes of these drivers in agent configs and job files.
var attributes = map[string]proof{
	"exec agent allow_caps":       by(TestCapabilitiesBeyondTheAllowedAreRefused),
	"exec agent allowed_modes":    by(TestHostModesThatTheOperatorDoesNotAllowAreRefused),
	"exec agent pids_limit":       by(TestHostileATaskThatForksWithoutEndEndsAtItsLimitOfProcesses),
	"exec agent chroot_env":       by(TestTheOperatorSaysWhatTasksSeeOfTheMachine),
	"exec agent default_ipc_mode": by(TestTheOperatorSaysWhichNamespacesTasksShareThatSayNothing),
	"exec agent default_pid_mode": by(TestTheOperatorSaysWhichNamespacesTasksShareThatSayNothing),
	"exec agent denied_host_gids": by(TestTasksRunAsNobodyOrAsTheUserTheyNameUnlessItIsDenied),
	"exec agent denied_host_uids": by(TestTasksRunAsNobodyOrAsTheUserTheyNameUnlessItIsDenied),
	"exec agent no_pivot_root":    by(TestNoTaskBreaksOutWithoutPivotRoot),
	"exec task args":              by(TestArgumentsReachTheCommandAsTheyAre),
	"exec task cap_add":           by(TestCapabilitiesAreTheDefaultSetMoreOrLessAsAskedFor),
	"exec task cap_drop":          by(TestCapabilitiesAreTheDefaultSetMoreOrLessAsAskedFor),
	"exec task command":           by(TestCommandsThatCannotRunAreClearErrorsAndLeaveNothing),
	"exec task init":              by(TestACommandMayBeProcessOne),
	"exec task ipc_mode":          by(TestHostModesShareTheMachinesNamespaces),
	"exec task pid_mode":          by(TestHostModesShareTheMachinesNamespaces),
	"exec task work_dir":          by(TestTheResolverAndTheWorkingDirectoryAreTheTasks),

	"java agent allow_caps":       by(TestAJavaTaskThatCannotRunIsRefusedAndSaysWhy),
	"java agent allowed_modes":    because("exec and java read it in one place"),
	"java agent pids_limit":       because("exec and java read it in one place"),
	"java agent chroot_env":       by(TestAJVMThatTasksWouldNotSeeIsShownToThem),
	"java agent default_ipc_mode": by(TestAJavaTaskIsIsolatedAsExecsAreAndCommandsRunBesideIt),
	"java agent default_pid_mode": by(TestAJavaTaskIsIsolatedAsExecsAreAndCommandsRunBesideIt),
	"java agent denied_host_gids": by(TestAJavaTaskThatCannotRunIsRefusedAndSaysWhy),
	"java agent denied_host_uids": by(TestAJavaTaskThatCannotRunIsRefusedAndSaysWhy),
	"java agent no_pivot_root":    by(TestAJavaTaskRunsWithoutPivotRoot),
	"java task args":              by(TestAJarRunsFromTheTasksDirectoryWithItsOptionsAndArguments),
	"java task cap_add":           by(TestAJavaTaskIsIsolatedAsExecsAreAndCommandsRunBesideIt),
	"java task cap_drop":          by(TestAJavaTaskIsIsolatedAsExecsAreAndCommandsRunBesideIt),
	"java task class":             by(TestAClassRunsFromItsClassPathOrFromTheJarInsteadOfItsMainClass),
	"java task class_path":        by(TestAClassRunsFromItsClassPathOrFromTheJarInsteadOfItsMainClass),
	"java task ipc_mode":          by(TestAJavaTaskIsIsolatedAsExecsAreAndCommandsRunBesideIt),
	"java task jar_path":          by(TestAJarRunsFromTheTasksDirectoryWithItsOptionsAndArguments),
	"java task jvm_options":       by(TestAJarRunsFromTheTasksDirectoryWithItsOptionsAndArguments),
	"java task pid_mode":          by(TestAJavaTaskIsIsolatedAsExecsAreAndCommandsRunBesideIt),
	"java task work_dir":          by(TestAClassRunsFromItsClassPathOrFromTheJarInsteadOfItsMainClass),

	"raw_exec agent denied_envvars":    by(TestDeniedVariablesAndOOMScoreReachTheTask),
	"raw_exec agent denied_host_gids":  by(TestADeniedUserIsRefused),
	"raw_exec agent denied_host_uids":  by(TestADeniedUserIsRefused),
	"raw_exec agent enabled":           by(TestADisabledDriverIsUndetectedAndStartsNothing),
	"raw_exec task args":               by(TestCommandsRunInTheirDirectoryWithTheirArguments),
	"raw_exec task cgroup_v1_override": by(TestATaskRunsInTheCgroupsThatItNames),
	"raw_exec task cgroup_v2_override": by(TestATaskRunsInTheCgroupsThatItNames),
	"raw_exec task command":            by(TestCommandsAreFoundInTheTaskDirectoryAndMissingOnesNamed),
	"raw_exec task denied_envvars":     by(TestDeniedVariablesAndOOMScoreReachTheTask),
	"raw_exec task oom_score_adj":      by(TestDeniedVariablesAndOOMScoreReachTheTask),
	"raw_exec task work_dir":           by(TestCommandsRunInTheirDirectoryWithTheirArguments),
}

// given are the properties that the agent sets for a task, by field of the contract.
var given = map[string]proof{
	"AllocDir": by(TestATaskSeesNoFilesOfTheAgentOrOfOtherTasks), "TaskDir": by(TestATaskSeesNoFilesOfTheAgentOrOfOtherTasks),
	"DriverConfig": because("it is the attributes above"), "Env": by(TestExecKeepsTheContract), "ID": by(TestExecKeepsTheContract),
	"Cgroup.Version": because("this driver asks for no cgroup of the host: Capabilities.HostCgroup"), "Cgroup.Dirs": because("as Cgroup.Version"),
	"DynamicUID":           by(TestTasksOfTwoAllocsWithUserIDsOfTheirOwnCannotReachEachOther, TestAUserIDOfAnAllocIsRefusedWhereTheOperatorDeniesIt),
	"User":                 by(TestTasksRunAsNobodyOrAsTheUserTheyNameUnlessItIsDenied),
	"Resources.CPUMHz":     by(TestResourcesBecomeLimitsOfTheTasksCgroup),
	"Resources.CPUPercent": because("it is CPUMHz in another unit"),
	"Resources.Cores":      by(TestTasksWithCoresOfTheirOwnRunOnThemOnly, TestATaskWithCoresOfItsOwnRunsOnThemOnly), "Resources.MemoryMB": by(TestATaskThatUsesTooMuchMemoryIsReportedAsSuch),
	"Resources.SharedCores": by(TestATaskWithoutCoresLeavesThoseThatOthersHaveReserved, TestAllThreadsOfARawTaskMoveToTheCoresThatAreShared),
	"Resources.MemoryMaxMB": by(TestMemoryMaxIsTheLimitAndMemoryWhatTheTaskKeeps),
	"Mounts.HostPath":       by(TestDevicesAndMountsOfATaskAreThereAndNoOthers), "Mounts.TaskPath": by(TestDevicesAndMountsOfATaskAreThereAndNoOthers),
	"Mounts.ReadOnly": by(TestDevicesAndMountsOfATaskAreThereAndNoOthers), "Mounts.PropagationMode": by(TestMountsPropagateAsTheVolumeSays),
	"Mounts.SELinuxLabel": because("labels are a matter of container engines; processes have that of the agent"),
	"Devices.HostPath":    by(TestDevicesAndMountsOfATaskAreThereAndNoOthers), "Devices.TaskPath": by(TestDevicesAndMountsOfATaskAreThereAndNoOthers),
	"Devices.Permissions": by(TestDevicesAndMountsOfATaskAreThereAndNoOthers),
	"CDIDevices":          because("Env, Mounts and Devices say the same to a driver without CDI"),
	"DeviceEnv":           because("Env has them too"),
	"Network.Path":        by(TestATaskJoinsANetworkNamespaceAndHasItsHostname, TestARawTaskAndCommandsBesideItAreInTheGroupsNetwork), "Network.Hostname": by(TestATaskJoinsANetworkNamespaceAndHasItsHostname),
	"Network.Address": by(TestATaskJoinsANetworkNamespaceAndHasItsHostname),
	"SecretEnv":       by(TestSecretsOfATaskAreInNoFileAndCommandsHaveThemAlsoAfterTheSupervisorWasKilled),
	"Network.Mode":    because("Path says which namespace it is"), "Network.Labels": because("they are for networks that a driver makes"),
	"Ports":       because("tasks use the ports of the machine, or of the group's namespace, as they are"),
	"DNS.Servers": by(TestTheResolverAndTheWorkingDirectoryAreTheTasks), "DNS.Searches": by(TestTheResolverAndTheWorkingDirectoryAreTheTasks),
	"DNS.Options":     by(TestTheResolverAndTheWorkingDirectoryAreTheTasks),
	"Logs.StdoutPath": by(TestExecKeepsTheContract), "Logs.StderrPath": by(TestOutputGoesNowhereWhereTheJobSaysSo),
	"Logs.MaxFiles": by(TestExecKeepsTheContract), "Logs.MaxFileSizeMB": by(TestExecKeepsTheContract),
	"Logs.Disabled": by(TestOutputGoesNowhereWhereTheJobSaysSo),
	"KillSignal":    because("StopTask is given it again, and counts"), "KillTimeout": because("StopTask is given it again, and counts"),
	"Name": because("a name for messages"), "Namespace": because("the agent puts it into Env"), "JobID": because("the agent puts it into Env"),
	"JobName": because("the agent puts it into Env"), "TaskGroup": because("the agent puts it into Env"), "AllocID": because("the agent puts it into Env"),
	"AllocName": because("the agent puts it into Env"), "NodeID": because("the agent puts it into Env"), "NodeName": because("the agent puts it into Env"),
}

func drivers() map[string]driver.Info {
	return map[string]driver.Info{
		"exec": driverexec.NewExec("").Info(), "java": driverexec.NewJava("").Info(), "raw_exec": driverexec.NewRawExec("").Info(),
	}
}

func TestEveryAttributeIsActedOnByATestOrHasAReason(t *testing.T) {
	seen := map[string]bool{}
	for name, info := range drivers() {
		for where, s := range map[string]schema.Schema{"agent": info.ConfigSchema, "task": info.TaskConfigSchema} {
			for _, a := range s.Attributes {
				key := name + " " + where + " " + a.Name
				seen[key] = true
				if p := attributes[key]; len(p.tests) == 0 && p.reason == "" {
					t.Errorf("%s: nothing tests that it is acted on", key)
				}
				if a.Description == "" {
					t.Errorf("%s: it has no description", key)
				}
			}
		}
	}
	for key := range attributes {
		if !seen[key] {
			t.Errorf("%s: there is no such attribute", key)
		}
	}
}

func TestEverythingThatTheAgentGivesATaskIsActedOnByATestOrHasAReason(t *testing.T) {
	var fields func(prefix string, typ reflect.Type) []string
	fields = func(prefix string, typ reflect.Type) (out []string) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			inner := f.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && f.Name != "Ports" {
				out = append(out, fields(prefix+f.Name+".", inner)...)
				continue
			}
			out = append(out, prefix+f.Name)
		}
		return out
	}
	all := fields("", reflect.TypeFor[driver.TaskConfig]())
	for _, f := range all {
		if p := given[f]; len(p.tests) == 0 && p.reason == "" {
			t.Errorf("%s: nothing tests that it is acted on", f)
		}
	}
	for f := range given {
		if !slices.Contains(all, f) {
			t.Errorf("%s: the contract has no such field", f)
		}
	}
}

// TestSchemasHaveWhatTheReferencesHave compares names, types, defaults and
// capabilities with those that were recorded from the reference.
func TestSchemasHaveWhatTheReferencesHave(t *testing.T) {
	dir := os.Getenv("DROVER_COMPAT")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "compat")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "surface", "driver-config.txt"))
	if err != nil {
		t.Skipf("no recorded facts: %v", err)
	}
	ours := drivers()
	found := 0
	for section := range strings.SplitSeq(string(raw), "\n# driver ") {
		name, body, _ := strings.Cut(section, "\n")
		info, ok := ours[name]
		if !ok {
			continue
		}
		found++
		head, rest, _ := strings.Cut(body, "## agent:")
		agent, task, _ := strings.Cut(rest, "## task:")
		compareCapabilities(t, name, head, info.Capabilities)
		compareSchema(t, name+" agent", agent, info.ConfigSchema)
		compareSchema(t, name+" task", task, info.TaskConfigSchema)
	}
	if found != len(ours) {
		t.Errorf("%d of %d drivers are in the records", found, len(ours))
	}
}

var (
	attributeLine = regexp.MustCompile(`^(\w+): (\S+)( required)?$`)
	defaultLine   = regexp.MustCompile(`^  default (.*)$`)
)

func compareSchema(t *testing.T, where, text string, s schema.Schema) {
	t.Helper()
	var last *schema.Attribute
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := defaultLine.FindStringSubmatch(line); m != nil && last != nil {
			got, err := json.Marshal(last.Default)
			if err != nil || string(got) != m[1] {
				t.Errorf("%s %s: default %s, want %s", where, last.Name, got, m[1])
			}
			continue
		}
		m := attributeLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		at := slices.IndexFunc(s.Attributes, func(a schema.Attribute) bool { return a.Name == m[1] })
		if at < 0 {
			t.Errorf("%s %s: it is missing", where, m[1])
			last = nil
			continue
		}
		last = &s.Attributes[at]
		if string(last.Type) != m[2] || last.Required != (m[3] != "") {
			t.Errorf("%s %s: type %s, required %v; want %s", where, m[1], last.Type, last.Required, line)
		}
	}
}

// compareCapabilities allows capabilities that the reference does not have, but not
// the reverse.
func compareCapabilities(t *testing.T, name, text string, c driver.Capabilities) {
	t.Helper()
	for what, ok := range map[string]bool{
		"SendSignals:true": c.SendSignals, "Exec:true": c.Exec, "MountConfigs:0": c.MountConfigs,
		fmt.Sprintf("FSIsolation:%s", c.FSIsolation): true, fmt.Sprintf("NetIsolationModes:%v", c.NetworkModes): true,
	} {
		if has := strings.Contains(text, what+" ") || strings.Contains(text, what+"}"); has && !ok || !has && ok && strings.Contains(what, "Isolation") {
			t.Errorf("%s: the reference says %s in %q", name, what, strings.TrimSpace(text))
		}
	}
}
