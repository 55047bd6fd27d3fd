// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Probe is a check of a service that decides whether an alloc is healthy in a
// deployment. Afterwards it is not asked again yet.
type Probe struct {
	Service string
	Check   *model.ServiceCheck
	Address string // HOST:PORT
}

// Bounds of a probe.
const (
	leastProbeInterval = time.Second
	maxProbeTimeout    = 30 * time.Second
	maxProbes          = 100 // of one alloc
)

// probesOf returns the checks of an alloc's services, or which of them this node
// cannot run: then nobody knows whether the alloc is healthy.
func probesOf(a *model.Allocation, tg *model.TaskGroup) (probes []Probe, cannot string) {
	add := func(s *model.Service, task string) {
		for _, c := range s.Checks {
			label := c.PortLabel
			if label == "" {
				label = s.PortLabel
			}
			address, ok := portOf(a, task, label)
			mode := c.AddressMode
			switch kind := strings.ToLower(c.Type); {
			case kind != "tcp" && kind != "http":
				cannot = fmt.Sprintf("service %q has a check of type %s, which this node cannot run yet", s.Name, c.Type)
			case s.Provider != "nomad":
				cannot = fmt.Sprintf("checks of service %q are those of provider %s, which this node cannot run yet", s.Name, s.Provider)
			case mode != "" && mode != "auto" && mode != "host":
				cannot = fmt.Sprintf("service %q has a check with address_mode %s, which this node cannot run yet", s.Name, mode)
			case !ok:
				cannot = fmt.Sprintf("the check of service %q is of port %q, which the alloc does not have", s.Name, label)
			default:
				probes = append(probes, Probe{Service: s.Name, Check: c, Address: address})
			}
		}
	}
	for _, s := range tg.Services {
		add(s, s.TaskName)
	}
	for _, t := range tg.Tasks {
		for _, s := range t.Services {
			add(s, t.Name)
		}
	}
	if len(probes) > maxProbes {
		cannot = fmt.Sprintf("the alloc has %d checks; at most %d can gate a deployment", len(probes), maxProbes)
	}
	return probes, cannot
}

// portOf finds a port of an alloc by its label.
func portOf(a *model.Allocation, task, label string) (string, bool) {
	res := a.AllocatedResources
	if res == nil || label == "" {
		return "", false
	}
	for _, p := range res.Shared.Ports {
		if p.Label == label {
			return net.JoinHostPort(p.HostIP, strconv.Itoa(p.Value)), true
		}
	}
	if t := res.Tasks[task]; t != nil {
		for _, n := range t.Networks {
			for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				if p.Label == label {
					return net.JoinHostPort(n.IP, strconv.Itoa(p.Value)), true
				}
			}
		}
	}
	return "", false
}

// Run asks once; nil is a check that passes.
func (p Probe) Run(ctx context.Context) error {
	timeout := p.Check.Timeout
	if timeout <= 0 || timeout > maxProbeTimeout {
		timeout = maxProbeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if strings.EqualFold(p.Check.Type, "http") {
		return p.get(ctx)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (p Probe) get(ctx context.Context) error {
	c := p.Check
	scheme := "http"
	if strings.EqualFold(c.Protocol, "https") {
		scheme = "https"
	}
	method := c.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+"://"+p.Address+"/"+strings.TrimPrefix(c.Path, "/"), strings.NewReader(c.Body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	for name, values := range c.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: c.TLSSkipVerify, ServerName: c.TLSServerName}}
	answer, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("answer %s", answer.Status)
	}
	return nil
}

// probing is what is known of the checks of an alloc.
type probing struct {
	running bool
	passed  bool
	next    time.Time // when to ask again
	failed  string    // why the last round did not pass
}

// gate holds a healthy verdict back until the checks have passed that the group's
// health is to be judged by. Checks that nobody can run make nothing healthy.
func (r *Runner) gate(rule healthRule, now time.Time) verdict {
	healthy := verdict{decided: true, healthy: true}
	if !rule.checks || r.probing.passed {
		return healthy
	}
	probes, cannot := probesOf(r.alloc, r.group)
	if cannot != "" {
		r.probing.failed = cannot
	} else if len(probes) == 0 {
		return healthy
	}
	if !now.Before(rule.deadline) {
		why := fmt.Sprintf("Unhealthy because of checks that have not passed by healthy_deadline of %s: %s", rule.window, r.probing.failed)
		return verdict{decided: true, reason: map[string]string{r.group.Tasks[0].Name: why}}
	}
	p := &r.probing
	if cannot == "" && !p.running && !now.Before(p.next) {
		p.running = true
		r.work.Go(func() { r.probe(probes) })
	}
	if !p.running && p.next.After(now) && p.next.Before(rule.deadline) {
		return verdict{at: p.next}
	}
	return verdict{at: rule.deadline}
}

// probe asks all checks once and has the alloc's health judged anew.
func (r *Runner) probe(probes []Probe) {
	failed, pause := "", time.Duration(0)
	for _, p := range probes {
		if err := r.cfg.probe(r.ctx, p); err != nil {
			failed, pause = fmt.Sprintf("service %q: %v", p.Service, err), max(p.Check.Interval, leastProbeInterval)
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probing = probing{passed: failed == "", failed: failed, next: r.cfg.Now().Add(pause)}
	r.settle(&effects{})
}
