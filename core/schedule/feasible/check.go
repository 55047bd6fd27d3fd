// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// Reasons that are not the text of a constraint, with the reference's wording.
const (
	ReasonDrivers       = "missing drivers"
	ReasonHostVolumes   = "missing compatible host volumes"
	ReasonVolumeType    = "no node has volumes of type"
	ReasonNetwork       = "missing network"
	ReasonDevices       = "missing devices"
	ReasonDistinctHosts = "distinct_hosts"
)

// Checker decides which nodes a group may run on, regardless of their load. It caches
// its answers per computed class; make one per group and evaluation.
type Checker struct {
	m        *matcher
	job      *model.Job
	tg       *model.TaskGroup
	state    VolumeView          // nil: dynamic host volumes are not looked at
	mounts   bool                // the group requests volumes
	csi      bool                // some of them are of type csi
	region   string              // of the job, and so of all nodes
	byClass  []*model.Constraint // same answer within a computed class
	byNode   []*model.Constraint // constraints that use unique values
	drivers  []string
	volumes  []*model.VolumeRequest
	networks []*model.NetworkResource
	devices  []*model.RequestedDevice
	verdicts map[string]string // computed class -> reason; "" is feasible
	stays    map[string]string // the same for allocs that run
}

// NewChecker returns the checker of a group of a job, for questions in which it does not
// matter which dynamic host volumes there are: see WithVolumes.
func NewChecker(job *model.Job, tg *model.TaskGroup) *Checker {
	c := &Checker{m: newMatcher(), job: job, tg: tg, region: job.Region, verdicts: map[string]string{}, stays: map[string]string{}, networks: tg.Networks}
	c.add(job.Constraints)
	c.add(tg.Constraints)
	for _, t := range tg.Tasks {
		c.add(t.Constraints)
		c.drivers = append(c.drivers, t.Driver)
		if t.Resources != nil {
			c.devices = append(c.devices, t.Resources.Devices...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		c.volumes = append(c.volumes, tg.Volumes[name])
		c.csi = c.csi || tg.Volumes[name].IsCSI()
		c.mounts = c.mounts || c.csi || tg.Volumes[name].IsHost()
	}
	return c
}

// WithVolumes makes the checker look at the host volumes of a state. It returns c.
func (c *Checker) WithVolumes(s VolumeView) *Checker { c.state = s; return c }

func (c *Checker) add(cs []*model.Constraint) {
	for _, k := range cs {
		switch {
		case k.Operand == model.ConstraintDistinctHosts || k.Operand == model.ConstraintDistinctProperty:
			// concerns other allocs, not the node: see Distinct
		case Escapes(k.LTarget) || Escapes(k.RTarget):
			c.byNode = append(c.byNode, k)
		default:
			c.byClass = append(c.byClass, k)
		}
	}
}

// Escaped reports whether some constraint must be checked for each node.
func (c *Checker) Escaped() bool { return len(c.byNode) > 0 || c.csi }

// PerNode reports whether Check has to be asked for each node; otherwise nodes of a computed
// class have the same answer.
func (c *Checker) PerNode() bool { return len(c.byNode) > 0 || c.mounts }

// Check returns "" if the group may run on n, otherwise the reason why not.
func (c *Checker) Check(n *model.Node) string {
	if r := c.check(n, c.verdicts, c.checkClass); r != "" || !c.mounts {
		return r
	}
	if why := c.checkMounts(n); why != "" || !c.csi || c.state == nil {
		return why
	}
	return c.checkCSI(n)
}

// Stays returns "" if an alloc of the group that runs on n may stay there, otherwise the
// reason why not. A driver, device or network that is out of order at the moment is none: the
// plugin may be starting again, and the task runs without it.
func (c *Checker) Stays(n *model.Node) string {
	if r := c.check(n, c.stays, c.checkPlace); r != "" || !c.mounts {
		return r
	}
	return c.lostMounts(n)
}

func (c *Checker) check(n *model.Node, verdicts map[string]string, checkClass func(*model.NodeTraits) string) string {
	reason, known := verdicts[n.ComputedClass]
	if !known || n.ComputedClass == "" {
		reason = checkClass(n.Traits())
		verdicts[n.ComputedClass] = reason
	}
	if reason != "" {
		return reason
	}
	return c.constraints(c.byNode, func(target string) (string, bool) { return Resolve(target, c.region, n) })
}

// Classes returns the computed classes checked so far and whether each is feasible.
func (c *Checker) Classes() map[string]bool {
	out := make(map[string]bool, len(c.verdicts))
	for class, reason := range c.verdicts {
		if class != "" {
			out[class] = reason == ""
		}
	}
	return out
}

// checkClass uses only properties that are part of the computed class.
func (c *Checker) checkClass(t *model.NodeTraits) string {
	if r := c.checkClassConstraints(t); r != "" {
		return r
	}
	for _, d := range c.drivers {
		if !hasDriver(t, d) {
			return ReasonDrivers
		}
	}
	for _, v := range c.volumes { // those of the names that differ per alloc, and dynamic ones: checkMounts
		if readOnly, ok := t.HostVolumes[v.Source]; v.IsHost() && !v.PerAlloc && (!ok || readOnly && v.Writes()) {
			return ReasonHostVolumes
		}
	}
	for _, nw := range c.networks {
		if r := c.checkMode(nw.Mode, t); r != "" {
			return r
		}
	}
	if r := c.checkRest(t); r != "" {
		return r
	}
	for _, d := range c.devices {
		if c.instances(d, t) < d.Count {
			return ReasonDevices
		}
	}
	return ""
}

// checkPlace is checkClass without what plugins are able to do.
func (c *Checker) checkPlace(t *model.NodeTraits) string {
	if r := c.checkClassConstraints(t); r != "" {
		return r
	}
	return c.checkRest(t)
}

func (c *Checker) checkClassConstraints(t *model.NodeTraits) string {
	return c.constraints(c.byClass, func(target string) (string, bool) { return resolve(target, c.region, t) })
}

// checkRest checks the types of volumes and the addresses of ports.
func (c *Checker) checkRest(t *model.NodeTraits) string {
	for _, v := range c.volumes {
		if !v.IsHost() && !v.IsCSI() {
			return fmt.Sprintf("%s %q", ReasonVolumeType, v.Type)
		}
	}
	for _, nw := range c.networks {
		if r := checkPorts(nw, t); r != "" {
			return r
		}
	}
	return ""
}

// checkMode checks that the node can make the group's network, and that the drivers can put
// their tasks into it. A driver that does not say which networks it can join passes; if it
// cannot, the start of the task fails.
func (c *Checker) checkMode(mode string, t *model.NodeTraits) string {
	if mode == "" || mode == "host" {
		return ""
	}
	offered := slices.Contains(t.NetworkModes, mode)
	for _, d := range c.drivers {
		said, known := t.Attributes[model.DriverNetworksAttribute(d)]
		can := strings.Split(said, ",")
		switch {
		case mode == "none" && slices.Contains(can, "none"): // nothing has to be made
		case !offered:
			return ReasonNetwork
		case known && !slices.Contains(can, "group"):
			return fmt.Sprintf("driver %q cannot join network %q", d, mode)
		}
	}
	return ""
}

func (c *Checker) constraints(cs []*model.Constraint, value func(target string) (string, bool)) string {
	for _, k := range cs {
		if !c.holds(k.LTarget, k.Operand, k.RTarget, value) {
			return k.String()
		}
	}
	return ""
}

func (c *Checker) holds(ltarget, operand, rtarget string, value func(target string) (string, bool)) bool {
	l, lok := value(ltarget)
	r, rok := value(rtarget)
	return c.m.match(operand, l, r, lok, rok)
}

// Affinity returns the weighted share of the affinities that n matches, -1..1.
func (c *Checker) Affinity(as []*model.Affinity, n *model.Node) float64 {
	var sum, total float64
	value := func(target string) (string, bool) { return Resolve(target, c.region, n) }
	for _, a := range as {
		w := float64(a.Weight)
		total += max(w, -w)
		if c.holds(a.LTarget, a.Operand, a.RTarget, value) {
			sum += w
		}
	}
	if total == 0 {
		return 0
	}
	return sum / total
}

// hasDriver reports whether the driver works on n. If a node has no DriverInfo for the
// driver, its attributes count.
func hasDriver(t *model.NodeTraits, name string) bool {
	if works, ok := t.Drivers[name]; ok {
		return works
	}
	ok, err := strconv.ParseBool(t.Attributes["driver."+name])
	return err == nil && ok
}

func checkPorts(nw *model.NetworkResource, t *model.NodeTraits) string {
	for _, ports := range [][]model.Port{nw.ReservedPorts, nw.DynamicPorts} {
		for _, p := range ports {
			if Escapes(p.HostNetwork) { // the nodes of a class differ in it: see assignPort
				continue
			}
			name, ok := resolve(hostNetwork(p.HostNetwork), "", t)
			if !ok || name == "" {
				return noHostNetwork(p)
			}
			if !slices.Contains(t.HostNetworks, name) {
				return "missing host network \"" + name + "\" for port \"" + p.Label + "\""
			}
		}
	}
	return ""
}

// noHostNetwork says that a node has no value for the ${...} that names a port's host network,
// with the reference's wording.
func noHostNetwork(p model.Port) string {
	return fmt.Sprintf("invalid host network %q template for port %q", p.HostNetwork, p.Label)
}

// InDatacenters reports whether dc matches one of the globs.
func InDatacenters(dc string, globs []string) bool {
	for _, g := range globs {
		if g == "*" || g == dc {
			return true
		}
		if strings.ContainsAny(g, "*?[") {
			if ok, err := path.Match(g, dc); err == nil && ok {
				return true
			}
		}
	}
	return false
}

// InPool reports whether nodes of the pool have may run jobs of the pool want.
func InPool(have, want string) bool {
	return want == model.NodePoolAll || have == want || want == "" && have == model.NodePoolDefault
}
