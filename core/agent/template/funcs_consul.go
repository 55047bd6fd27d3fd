// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Kinds of queries that a registry outside of the cluster answers.
const (
	KindKey            Kind = "kv.block"
	KindKeys           Kind = "kv.list"
	KindConsulService  Kind = "health.service"
	KindConsulServices Kind = "catalog.services"
)

// OfRegistry reports whether a registry outside of the cluster answers queries of the kind.
func (k Kind) OfRegistry() bool {
	return k == KindKey || k == KindKeys || k == KindConsulService || k == KindConsulServices
}

// Registry names the part of a registry from which the templates of a task read, and As whom:
// see Query.
type Registry struct{ Cluster, Namespace, Partition, As string }

// KeyPair is a key of a registry.
type KeyPair struct {
	Path  string // whole
	Key   string // below the prefix that was asked for
	Value string
}

// String is the value.
func (p KeyPair) String() string { return p.Value }

// HealthService is an instance of a service of a registry, with the fields of the reference.
type HealthService struct {
	ID, Name, Address string
	Port              int
	Tags              Tags
	ServiceMeta       map[string]string
	Node, NodeAddress string
	NodeDatacenter    string
	Status            string
}

// consulFunctions read keys and services of a registry.
func consulFunctions() map[string]function {
	of := func(kind Kind, make func(c *compiled) any) function {
		return function{make: make, watch: true, source: kind}
	}
	list := func(below, safe bool) func(c *compiled) any {
		return func(c *compiled) any {
			return func(prefix string) ([]KeyPair, error) { return c.keys(prefix, below, safe) }
		}
	}
	return map[string]function{
		"key":          of(KindKey, func(c *compiled) any { return c.key }),
		"keyOrDefault": of(KindKey, func(c *compiled) any { return c.keyOrDefault }),
		"keyExists":    of(KindKey, func(c *compiled) any { return c.keyExists }),
		"ls":           of(KindKeys, list(false, false)),
		"safeLs":       of(KindKeys, list(false, true)),
		"tree":         of(KindKeys, list(true, false)),
		"safeTree":     of(KindKeys, list(true, true)),
		"service":      of(KindConsulService, func(c *compiled) any { return c.healthService }),
		"services":     of(KindConsulServices, func(c *compiled) any { return c.catalogServices }),
	}
}

// ask returns the current answer of a registry.
func (c *compiled) ask(q Query) (Answer, bool) {
	at := c.runner.task.Registry
	q.Cluster, q.Namespace, q.Partition, q.As = at.Cluster, at.Namespace, at.Partition, at.As
	return c.lookup(q)
}

// keyQuery reads PATH or PATH@DATACENTER.
func keyQuery(kind Kind, path string) (Query, error) {
	name, datacenter, _ := strings.Cut(path, "@")
	name = strings.TrimPrefix(name, "/")
	if kind == KindKey && name == "" || len(path) > 4096 {
		return Query{}, errdefs.InvalidArgumentf("%.80q is not a path of a key; it is PATH or PATH@DATACENTER", path)
	}
	return Query{Kind: kind, Name: name, Datacenter: datacenter}, nil
}

// key waits for the key.
func (c *compiled) key(path string) (string, error) {
	q, err := keyQuery(KindKey, path)
	if err != nil {
		return "", err
	}
	a, ok := c.ask(q)
	if !ok || !a.Found || len(a.Keys) == 0 {
		if ok && c.spec.ErrMissingKey {
			return "", errdefs.NotFoundf("the key %s does not exist and error_on_missing_key is set; write it or remove the setting", path)
		}
		c.miss(q)
		return "", nil
	}
	return a.Keys[0].Value, nil
}

func (c *compiled) keyOrDefault(path, otherwise string) (string, error) {
	q, err := keyQuery(KindKey, path)
	if err != nil {
		return "", err
	}
	if a, _ := c.ask(q); a.Found && len(a.Keys) > 0 && a.Keys[0].Value != "" {
		return a.Keys[0].Value, nil
	}
	return otherwise, nil
}

func (c *compiled) keyExists(path string) (bool, error) {
	q, err := keyQuery(KindKey, path)
	if err != nil {
		return false, err
	}
	a, _ := c.ask(q)
	return a.Found, nil
}

// keys returns the keys with a prefix: all of them, or those without a further slash. Folders
// are left out. With safe it waits until there is one.
func (c *compiled) keys(prefix string, below, safe bool) ([]KeyPair, error) {
	q, err := keyQuery(KindKeys, prefix)
	if err != nil {
		return nil, err
	}
	if q.Name != "" && !strings.HasSuffix(q.Name, "/") {
		q.Name += "/"
	}
	a, ok := c.ask(q)
	var out []KeyPair
	for _, p := range a.Keys {
		rest := strings.TrimPrefix(p.Path, q.Name)
		if rest == "" || strings.HasSuffix(rest, "/") || !below && strings.Contains(rest, "/") {
			continue
		}
		out = append(out, KeyPair{Path: p.Path, Key: rest, Value: p.Value})
	}
	if ok && safe && len(out) == 0 {
		c.miss(q)
	}
	return out, nil
}

// healthName is TAG.NAME@DATACENTER|STATUS,STATUS, of which all but the name may be missing.
var healthName = regexp.MustCompile(`^(?:([a-zA-Z0-9_=:.\-]+)\.)?([a-zA-Z0-9_\-]+)(?:@([a-zA-Z0-9_\-]+))?(?:\|([a-z,]+))?$`)

// healthService takes a name, and statuses as part of it or after it: "any", or a list of
// passing, warning and critical; only passing instances without any.
func (c *compiled) healthService(name string, statuses ...string) ([]HealthService, error) {
	m := healthName.FindStringSubmatch(name)
	if m == nil || len(statuses) > 1 {
		return nil, errdefs.InvalidArgumentf("service: %.80q is not a name of a service; it is NAME, TAG.NAME, NAME@DATACENTER or NAME|STATUS, with at most one list of statuses after it", name)
	}
	wanted := []string{"passing"}
	if all := append(statuses, m[4]); all[0] != "" {
		wanted = strings.Split(all[0], ",")
	}
	for _, s := range wanted {
		if !slices.Contains([]string{"any", "passing", "warning", "critical"}, s) {
			return nil, errdefs.InvalidArgumentf("service: there is no status %q; use any, passing, warning or critical", s)
		}
	}
	q := Query{Kind: KindConsulService, Name: m[2], Tag: m[1], Datacenter: m[3], Unhealthy: !slices.Equal(wanted, []string{"passing"})}
	a, _ := c.ask(q)
	var out []HealthService
	for _, s := range a.Instances {
		if slices.Contains(wanted, "any") || slices.Contains(wanted, s.Status) {
			s.Tags = slices.Clone(s.Tags)
			out = append(out, s)
		}
	}
	return out, nil
}

// catalogServices takes a datacenter, as @NAME, or nothing.
func (c *compiled) catalogServices(at ...string) ([]ServiceSummary, error) {
	if len(at) > 1 {
		return nil, errdefs.InvalidArgumentf("services: takes at most a datacenter, as @NAME")
	}
	a, _ := c.ask(Query{Kind: KindConsulServices, Datacenter: strings.TrimPrefix(strings.Join(at, ""), "@")})
	out := slices.Clone(a.Services)
	for i := range out {
		out[i].Tags = slices.Clone(out[i].Tags)
	}
	return out, nil
}
