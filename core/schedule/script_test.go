// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into the scripts instead of comparing")

// script is a cluster that is driven by lines of text and tells what it does.
type script struct {
	v       *memView
	ids     counter
	now     time.Time
	out     strings.Builder
	blocked *model.Evaluation
	held    map[string]int64 // MHz by node, when it was looked at last
	crowds  map[string]int   // allocs by node, when it was looked at last
}

const separator = "----\n"

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(src), "# ") {
				t.Errorf("%s: the first line says why what happens is right", f)
			}
			in, want, _ := strings.Cut(string(src), separator)
			s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
			for i, line := range strings.Split(in, "\n") {
				if err := s.line(line); err != nil {
					t.Fatalf("%s:%d: %v", f, i+1, err)
				}
			}
			got := s.out.String()
			if *rewrite {
				if err := os.WriteFile(f, []byte(in+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("%s differs (look, then run with -rewrite)\ngot:\n%s\nwant:\n%s", f, got, want)
			}
		})
	}
}

func (s *script) line(line string) error {
	f := strings.Fields(line)
	if len(f) == 0 || strings.HasPrefix(f[0], "#") {
		return nil
	}
	args := map[string]string{}
	for _, a := range f[1:] {
		k, v, _ := strings.Cut(a, "=")
		args[k] = v
	}
	switch f[0] {
	case "node":
		s.v.nodes[f[1]] = parseNode(f[1], args)
	case "job":
		s.job(f[1], args)
	case "stop":
		j := *s.v.JobByID("", f[1])
		j.Stop = true
		j.Version++
		s.v.jobs[f[1]] = append(s.v.jobs[f[1]], &j)
	case "purge":
		s.v.former[f[1]] = s.v.jobs[f[1]]
		delete(s.v.jobs, f[1])
	case "stable":
		s.v.jobs[f[1]][num(f[2], 0)].Stable = true
	case "alloc":
		return s.alloc(f[1], args)
	case "promote":
		s.promote(f[1])
	case "deployment":
		s.v.LatestDeployment("", f[1]).Status = f[2]
	case "wait":
		d, err := time.ParseDuration(f[1])
		s.now = s.now.Add(d)
		return err
	case "config":
		s.v.config.SchedulerAlgorithm = args["algorithm"]
		on := func(t string) bool { return slices.Contains(strings.Split(args["preemption"], ","), t) }
		s.v.config.PreemptionConfig = model.PreemptionConfig{
			SystemSchedulerEnabled: on("system"), SysBatchSchedulerEnabled: on("sysbatch"), BatchSchedulerEnabled: on("batch"), ServiceSchedulerEnabled: on("service"),
		}
	case "run":
		s.run(f[1], args)
	default:
		return fmt.Errorf("unknown command %q", f[0])
	}
	s.v.index++
	return nil
}

func num(s string, def int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return def
}

func parseNode(id string, args map[string]string) *model.Node {
	n := &model.Node{
		ID: id, Name: id, Datacenter: cmp.Or(args["dc"], "dc1"), NodePool: cmp.Or(args["pool"], "default"), NodeClass: args["class"],
		Attributes: map[string]string{"kernel.name": "linux", "driver.raw_exec": "1", "nomad.version": "2.0.6-dev"}, Meta: map[string]string{},
		Status: cmp.Or(args["status"], "ready"), SchedulingEligibility: cmp.Or(args["eligibility"], "eligible"),
		NodeResources: &model.NodeResources{
			Cpu:          model.NodeCpuResources{CpuShares: int64(num(args["cpu"], 4000)), TotalCpuCores: 4, ReservableCpuCores: []uint16{0, 1, 2, 3}},
			Memory:       model.NodeMemoryResources{MemoryMB: int64(num(args["mem"], 8192))},
			Disk:         model.NodeDiskResources{DiskMB: int64(num(args["disk"], 100000))},
			NodeNetworks: []*model.NodeNetworkResource{{Mode: "host", Addresses: []model.NodeNetworkAddress{{Alias: "default", Address: "10.0.0.1"}}}},
		},
	}
	if count := num(args["numa"], 0); count > 0 { // NUMA nodes that share the cores evenly
		top := &model.Topology{}
		for i := range count {
			top.Nodes = append(top.Nodes, uint8(i))
		}
		for i := range uint16(4) {
			top.Cores = append(top.Cores, model.Core{ID: i, NodeID: uint8(int(i) * count / 4)})
		}
		n.NodeResources.Processors.Topology = top
	}
	for k, v := range args {
		if key, ok := strings.CutPrefix(k, "attr."); ok {
			n.Attributes[key] = v
		}
		if key, ok := strings.CutPrefix(k, "meta."); ok {
			n.Meta[key] = v
		}
	}
	if _, ok := args["nodriver"]; ok {
		delete(n.Attributes, "driver.raw_exec")
	}
	if _, ok := args["drain"]; ok {
		n.DrainStrategy = &model.DrainStrategy{}
	}
	if count := num(args["gpus"], 0); count > 0 {
		group := &model.NodeDeviceResource{Vendor: "nvidia", Type: "gpu", Name: "a100"}
		for i := range count {
			group.Instances = append(group.Instances, &model.NodeDevice{ID: fmt.Sprint("gpu", i), Healthy: true})
		}
		n.NodeResources.Devices = []*model.NodeDeviceResource{group}
	}
	n.NodeMaxAllocs = num(args["max_allocs"], 0)
	n.ComputedClass = n.ComputeClass()
	return n
}

func (s *script) job(id string, args map[string]string) {
	j := &model.Job{
		ID: id, Name: id, Namespace: "default", Type: cmp.Or(args["type"], "service"), Priority: num(args["priority"], 50), NodePool: cmp.Or(args["pool"], "default"),
		Datacenters: strings.Split(cmp.Or(args["dc"], "*"), ","), CreateIndex: 1, SubmitTime: s.now.UnixNano(),
	}
	if d := args["depends"]; d != "" { // on a job: name:condition:limit
		name, rest, _ := strings.Cut(d, ":")
		j.DependsOn = []*model.Dependency{dependency(name, rest)}
	}
	tg := &model.TaskGroup{Name: "g", Count: num(args["count"], 1), EphemeralDisk: &model.EphemeralDisk{SizeMB: 10, Sticky: args["sticky"] != ""}}
	task := &model.Task{Name: "t", Driver: "raw_exec", Env: map[string]string{"V": args["env"]}, Resources: &model.Resources{
		CPU: num(args["cpu"], 100), MemoryMB: num(args["mem"], 100), Cores: num(args["cores"], 0),
	}}
	if a := args["numa"]; a != "" {
		task.Resources.NUMA = &model.NUMA{Affinity: a}
	}
	if n := num(args["gpus"], 0); n > 0 {
		task.Resources.Devices = []*model.RequestedDevice{{Name: "nvidia/gpu", Count: uint64(n)}}
	}
	tg.Tasks = []*model.Task{task}
	if p := args["port"]; p != "" {
		label, value, _ := strings.Cut(p, ":")
		nw := &model.NetworkResource{}
		if value != "" {
			nw.ReservedPorts = []model.Port{{Label: label, Value: num(value, 0)}}
		} else {
			nw.DynamicPorts = []model.Port{{Label: label}}
		}
		tg.Networks = []*model.NetworkResource{nw}
	}
	if c := args["constraint"]; c != "" {
		p := strings.SplitN(c, ",", 3)
		for len(p) < 3 {
			p = append(p, "")
		}
		tg.Constraints = []*model.Constraint{{LTarget: p[0], Operand: p[1], RTarget: p[2]}}
	}
	if c := args["job_constraint"]; c != "" {
		p := strings.SplitN(c+",,", ",", 3)
		j.Constraints = []*model.Constraint{{LTarget: p[0], Operand: p[1], RTarget: strings.TrimRight(p[2], ",")}}
	}
	if a := args["affinity"]; a != "" {
		p := strings.SplitN(a, ",", 3)
		tg.Affinities = []*model.Affinity{{LTarget: p[0], Operand: "=", RTarget: p[1], Weight: int8(num(p[2], 50))}}
	}
	if a := args["spread"]; a != "" {
		p := strings.Split(a, ",")
		sp := &model.Spread{Attribute: p[0], Weight: 100}
		for _, target := range p[1:] {
			v, pc, _ := strings.Cut(target, ":")
			sp.SpreadTarget = append(sp.SpreadTarget, &model.SpreadTarget{Value: v, Percent: uint8(num(pc, 0))})
		}
		tg.Spreads = []*model.Spread{sp}
	}
	if args["parallel"] != "" {
		tg.Update = &model.UpdateStrategy{MaxParallel: num(args["parallel"], 1), Canary: num(args["canary"], 0), AutoRevert: args["revert"] != "", ProgressDeadline: 10 * time.Minute}
	}
	if r := args["resources"]; r != "" {
		if tg.Update == nil {
			tg.Update = &model.UpdateStrategy{}
		}
		tg.Update.Resources = r
	}
	if d := args["reschedule"]; d != "" {
		delay, _ := time.ParseDuration(d)
		tg.ReschedulePolicy = &model.ReschedulePolicy{Delay: delay, DelayFunction: args["function"], MaxDelay: time.Hour, Unlimited: args["attempts"] == "", Attempts: num(args["attempts"], 0), Interval: time.Hour}
	}
	if d := args["lost_after"]; d != "" {
		after, _ := time.ParseDuration(d)
		tg.Disconnect = &model.DisconnectStrategy{LostAfter: after, Reconcile: args["reconcile"]}
		if args["replace"] != "" {
			replace := args["replace"] == "true"
			tg.Disconnect.Replace = &replace
		}
	}
	tg.PreventRescheduleOnLost = args["prevent"] == "true"
	j.TaskGroups = []*model.TaskGroup{tg}
	if d := args["then"]; d != "" { // a group h that depends on g: condition:limit
		h := tg.Copy()
		h.Name, h.Count, h.DependsOn = "h", 1, []*model.Dependency{dependency("g", d)}
		j.TaskGroups = append(j.TaskGroups, h)
	}
	switch old := s.v.JobByID("", id); {
	case old != nil:
		j.Version, j.CreateIndex = old.Version+1, old.CreateIndex
	case s.v.former[id] != nil:
		j.CreateIndex = s.v.index + 1
	}
	s.v.jobs[id] = append(s.v.jobs[id], j)
}

// dependency reads a condition and a limit, such as healthy:5m.
func dependency(name, text string) *model.Dependency {
	condition, limit, _ := strings.Cut(text, ":")
	d := &model.Dependency{Name: name, Condition: condition}
	d.Timeout, _ = time.ParseDuration(limit)
	return d
}

// alloc changes allocs that run, by name or by name@version: what their node or
// an operator says.
func (s *script) alloc(name string, args map[string]string) error {
	done, yes := false, true
	for _, a := range s.v.where(func(a *model.Allocation) bool {
		return a.Name == name || name == "all" || a.ID == name || fmt.Sprint(a.Name, "@", a.JobVersion) == name
	}) {
		if a.ClientTerminalStatus() || a.ServerTerminalStatus() && args["status"] != "complete" {
			continue
		}
		done = true
		c := a.Copy()
		c.ClientStatus = cmp.Or(args["status"], c.ClientStatus)
		if a.ClientStatus == model.AllocClientStatusUnknown && c.ClientStatus != a.ClientStatus {
			c.FollowupEvalID = "" // as the state does
		}
		if c.ClientStatus == "running" && len(c.TaskStates) == 0 {
			at := s.now
			c.TaskStates = map[string]*model.TaskState{"t": {State: "running", StartedAt: &at}}
		}
		if state := args["task"]; state != "" {
			c.TaskStates = map[string]*model.TaskState{"t": {State: state}}
		}
		if c.ClientTerminalStatus() {
			at := s.now
			c.TaskStates = map[string]*model.TaskState{"t": {State: "dead", Failed: c.ClientStatus == "failed", FinishedAt: &at}}
		}
		if h := args["healthy"]; h != "" {
			ok := h == "true"
			c.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &ok, Timestamp: s.now, Canary: a.DeploymentStatus.IsCanary()}
			if !ok { // as core/control/deploy does
				c.DesiredTransition.Reschedule = &yes
			}
			if d := s.v.LatestDeployment("", a.JobID); d != nil && d.ID == a.DeploymentID && ok {
				d.TaskGroups[a.TaskGroup].HealthyAllocs++
			}
		}
		if args["migrate"] != "" {
			c.DesiredTransition.Migrate = &yes
		}
		s.v.allocs[c.ID] = c
	}
	if !done {
		return fmt.Errorf("no such alloc %s", name)
	}
	return nil
}

func (s *script) promote(job string) {
	ds := s.v.LatestDeployment("", job).TaskGroups["g"]
	ds.Promoted = true
	for _, id := range ds.PlacedCanaries {
		c := s.v.allocs[id].Copy()
		c.DeploymentStatus.Canary = false
		s.v.allocs[id] = c
	}
}

// run processes an evaluation of the job, tells the outcome and applies its plan.
func (s *script) run(job string, args map[string]string) {
	e := &model.Evaluation{ID: s.ids.NewID(), Namespace: "default", JobID: job, Type: "service", Priority: 50, Status: "pending", TriggeredBy: "job-register"}
	if j := s.v.JobByID("", job); j != nil {
		e.Type = j.Type
	}
	if _, ok := args["blocked"]; ok {
		e = s.blocked
	}
	o := schedule.Process(s.v, e, s.now, &s.ids)
	before := maps.Clone(s.v.allocs)
	s.v.apply(o.Plan)
	s.tell(job, o, before)
}

// tell says what a plan does; before is the allocs as they were.
func (s *script) tell(job string, o *schedule.Outcome, before map[string]*model.Allocation) {
	w := func(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }
	w("run %s: %s", job, o.Eval.Status)
	stops, others := map[string][]*model.Allocation{}, map[string][]*model.Allocation{} // by node
	for i := range o.Plan.Change {
		c := &o.Plan.Change[i]
		a := c.Make(before[c.AllocID], o.Eval.ID, 0)
		if c.Kind == model.AllocStop {
			stops[a.NodeID] = append(stops[a.NodeID], a)
		} else {
			others[a.NodeID] = append(others[a.NodeID], a)
		}
	}
	for _, a := range o.Plan.Place {
		others[a.NodeID] = append(others[a.NodeID], a)
	}
	for _, node := range slices.Sorted(maps.Keys(stops)) {
		for _, a := range stops[node] {
			verb := "stop"
			if a.DesiredStatus == model.AllocDesiredStatusEvict {
				verb = "evict"
			}
			w("  %s %s v%d on %s: %s %s", verb, a.Name, a.JobVersion, node, a.DesiredDescription, a.ClientStatus)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(others)) {
		for _, a := range others[node] {
			what := "place"
			if before[a.ID] != nil {
				what = "change"
			}
			line := fmt.Sprintf("  %s %s v%d on %s", what, a.Name, a.JobVersion, node)
			if before[a.ID] == nil && s.v.allocs[a.ID] != nil && len(s.v.allocs[a.ID].PreemptedAllocations) > 0 {
				line += fmt.Sprintf(" as %s in place of %v", a.ID, s.v.allocs[a.ID].PreemptedAllocations)
			}
			if a.DeploymentStatus.IsCanary() {
				line += " canary"
			}
			if a.ClientStatus != "pending" {
				line += " " + a.ClientStatus
			}
			if a.FollowupEvalID != "" {
				line += " follow-up"
			}
			for _, p := range a.AllocatedResources.Shared.Ports {
				if p.Value < 20000 {
					line += fmt.Sprintf(" %s=%d", p.Label, p.Value)
				} else {
					line += " " + p.Label + "=dynamic"
				}
			}
			if c := a.AllocatedResources.Tasks["t"].Cpu.ReservedCores; len(c) > 0 {
				line += fmt.Sprint(" cores=", c)
			}
			if old := before[a.ID]; old != nil && old.AllocatedResources != a.AllocatedResources {
				had, has := old.AllocatedResources.Tasks["t"], a.AllocatedResources.Tasks["t"]
				line += fmt.Sprintf(" cpu %d->%d memory %d->%d", had.Cpu.CpuShares, has.Cpu.CpuShares, had.Memory.MemoryMB, has.Memory.MemoryMB)
			}
			if a.RescheduleTracker != nil {
				line += fmt.Sprintf(" reschedules=%d", len(a.RescheduleTracker.Events))
			}
			w("%s", line)
		}
	}
	if d := o.Plan.Deployment; d != nil {
		if g := d.TaskGroups["g"]; g != nil {
			w("  new deployment: %s, total %d, canaries %d", d.StatusDescription, g.DesiredTotal, g.DesiredCanaries)
		} else {
			w("  new deployment: %s, no group", d.StatusDescription)
		}
	}
	for _, e := range o.Plan.PreemptionEvals {
		w("  evaluates %s: %s", e.JobID, e.TriggeredBy)
	}
	for _, u := range o.Plan.DeploymentUpdates {
		w("  deployment %s: %s", u.Status, u.StatusDescription)
	}
	for _, f := range o.FollowUps {
		w("  follow-up in %s: %s, %s", f.WaitUntil.Sub(s.now), f.TriggeredBy, f.StatusDescription)
	}
	for g, m := range o.FailedTGAllocs {
		w("  failed %s: evaluated %d filtered %d %v exhausted %d %v coalesced %d queued %d", g, m.NodesEvaluated, m.NodesFiltered, m.ConstraintFiltered, m.NodesExhausted, m.DimensionExhausted, m.CoalescedFailures, o.QueuedAllocations[g])
	}
	for _, line := range o.Eval.Holds(s.now) {
		w("  %s", line)
	}
	if o.Eval.Status == "failed" {
		w("  %s", o.Eval.StatusDescription)
	}
	if o.Eval.Status == "blocked" {
		s.blocked = o.Eval
	}
	if o.Blocked != nil {
		s.blocked = o.Blocked
		w("  blocked: %s, %d classes, escaped %v", o.Blocked.StatusDescription, len(o.Blocked.ClassEligibility), o.Blocked.EscapedComputedClass)
	}
	if u := o.Annotations.DesiredTGUpdates["g"]; u != nil {
		w("  updates: %s", strings.ReplaceAll(strings.Trim(fmt.Sprintf("%+v", *u), "{}"), ":", "="))
	}
}
