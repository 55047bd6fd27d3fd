// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/services"
	"github.com/drover-project/drover/core/taskenv"
	"github.com/drover-project/drover/sdk/errdefs"
)

// whence returns where the endpoint of a check is looked for, without the node's address, and
// the task from which the check takes its values. Callers hold r.mu.
func (r *Runner) whence(a *model.Allocation, p place) (services.Place, *model.Task) {
	from := services.Place{Alloc: a, Task: p.task}
	of := r.group.Tasks[0]
	for _, t := range r.group.Tasks {
		if t.Name == p.task {
			of = t
		}
		if d := r.tasks[t.Name].address; d != nil && (t.Name == p.task || p.task == "") {
			from.Driver = &model.DriverNetwork{IP: d.IP, PortMap: d.PortMap, AutoAdvertise: d.AutoAdvertise}
		}
	}
	return from, of
}

// asked adds the node's address to a place, and returns the service and the check with their
// ${...} replaced. Secrets are not replaced, because everyone who may read the job sees the
// results of its checks.
func (r *Runner) asked(from *services.Place, of *model.Task, p place) (*model.Service, *model.ServiceCheck) {
	if n := r.cfg.Node(); n != nil {
		from.NodeAddress = n.Attributes["unique.network.ip-address"]
	}
	return replaced(r.environment(from.Alloc, of, driver.Capabilities{FSIsolation: "image"}, template.Vars{}), p)
}

// checkTarget returns the target of a check during the given run of its tasks.
func (r *Runner) checkTarget(p place, run string) (checks.Target, error) {
	r.mu.Lock()
	a, attached := *r.alloc, r.attached
	a.NetworkStatus = r.network()
	from, of := r.whence(&a, p)
	r.mu.Unlock()
	s, c := r.asked(&from, of, p)
	out := checks.Target{Check: c, Service: s.Name}
	if strings.EqualFold(c.Type, "script") {
		return out, r.scriptOf(&out, p, run)
	}
	at, err := from.EndpointOfCheck(s, c)
	if err != nil {
		return out, err
	}
	out.Address = net.JoinHostPort(at.Address, strconv.Itoa(at.Port))
	switch c.AddressMode {
	case services.AddressAlloc, services.AddressAllocIPv6:
		if attached != nil {
			out.Netns = attached.Path
		}
	}
	return out, nil
}

// replaced returns a service and its check with their ${...} replaced.
func replaced(env *taskenv.Env, p place) (*model.Service, *model.ServiceCheck) {
	s, c := *p.service, *p.check
	for _, text := range []*string{&s.Name, &s.PortLabel, &c.Name, &c.PortLabel, &c.Path, &c.Method, &c.Body, &c.Protocol, &c.TLSServerName, &c.GRPCService} {
		*text = env.Replace(*text)
	}
	c.Header = make(map[string][]string, len(p.check.Header))
	for name, values := range p.check.Header {
		for _, v := range values {
			c.Header[name] = append(c.Header[name], env.Replace(v))
		}
	}
	return &s, &c
}

// scriptOf makes the check run its command in the task.
func (r *Runner) scriptOf(out *checks.Target, p place, run string) error {
	number, err := strconv.ParseUint(run[strings.LastIndexByte(run, '/')+1:], 10, 64)
	if p.task == "" || err != nil {
		return errdefs.InvalidArgumentf("the script check %q of service %q names no task in which it runs; set task in the check", p.check.Name, p.service.Name)
	}
	command, err := r.script(p.task, &model.ChangeScript{Command: p.check.Command, Args: p.check.Args})
	if err != nil {
		return err
	}
	out.Script = func(ctx context.Context) (int, string, error) { return r.execScript(ctx, p.task, number, command) }
	return nil
}
