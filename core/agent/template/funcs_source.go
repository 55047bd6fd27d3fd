// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"math"
	"regexp"
	"slices"
	"strings"

	instances "github.com/drover-project/drover/core/services"
	"github.com/drover-project/drover/sdk/errdefs"
)

// sourceFunctions read variables and services of the cluster.
func sourceFunctions() map[string]function {
	of := func(kind Kind, make func(c *compiled) any) function {
		return function{make: make, watch: true, source: kind}
	}
	return map[string]function{
		"nomadVar":       of(KindVariable, func(c *compiled) any { return c.variable }),
		"nomadVarExists": of(KindVariable, func(c *compiled) any { return c.variableExists }),
		"nomadVarList": of(KindVariables, func(c *compiled) any {
			return func(p ...string) ([]VariableMeta, error) { return c.variables(p, false) }
		}),
		"nomadVarListSafe": of(KindVariables, func(c *compiled) any {
			return func(p ...string) ([]VariableMeta, error) { return c.variables(p, true) }
		}),
		"nomadService":  of(KindService, func(c *compiled) any { return c.service }),
		"nomadServices": of(KindServices, func(c *compiled) any { return c.services }),
	}
}

// known is an answer as a run found it.
type known struct {
	Answer
	version uint64 // 0 if there was none yet
}

// lookup returns the current answer of a query. It is the same during a whole run, even if
// a newer answer arrives. If there is none yet, the template is run again later.
func (c *compiled) lookup(q Query) (Answer, bool) {
	q.Scope = c.runner.task.Scope
	k, again := c.run.answers[q]
	if !again {
		c.runner.subscribe(q)
		k.Answer, k.version, _ = c.runner.engine.hub.answer(q)
		c.run.answers[q] = k
	}
	if k.version == 0 {
		c.miss(q)
	}
	return k.Answer, k.version > 0
}

func (c *compiled) miss(q Query) {
	text := q.String()
	if !slices.Contains(c.run.missing, text) {
		c.run.missing = append(c.run.missing, text)
	}
}

// variablePath matches PATH@NAMESPACE.REGION, in which .REGION, and @ with all after it,
// are optional.
var variablePath = regexp.MustCompile(`^([a-zA-Z0-9\-_~/]{0,128})(?:@([a-zA-Z0-9\-]{1,128})(?:\.([a-zA-Z0-9\-_]+))?)?$`)

func variableQuery(kind Kind, path string) (Query, error) {
	m := variablePath.FindStringSubmatch(path)
	if m == nil || kind == KindVariable && m[1] == "" {
		return Query{}, errdefs.InvalidArgumentf("%q is not a path of a variable; it is PATH, PATH@NAMESPACE or PATH@NAMESPACE.REGION, of letters, digits and - _ ~ /", path)
	}
	return Query{Kind: kind, Name: strings.Trim(m[1], "/"), Namespace: m[2], Region: m[3]}, nil
}

func (c *compiled) variable(path string) (VariableItems, error) {
	q, err := variableQuery(KindVariable, path)
	if err != nil {
		return nil, err
	}
	a, ok := c.lookup(q)
	if ok && !a.Found {
		if c.spec.ErrMissingKey {
			return nil, errdefs.NotFoundf("the variable %s does not exist and error_on_missing_key is set; write it or remove the setting", path)
		}
		c.miss(q)
	}
	return itemsOf(a.Variable), nil
}

func (c *compiled) variableExists(path string) (bool, error) {
	q, err := variableQuery(KindVariable, path)
	if err != nil {
		return false, err
	}
	a, _ := c.lookup(q)
	return a.Found, nil
}

func (c *compiled) variables(prefix []string, safe bool) ([]VariableMeta, error) {
	if len(prefix) > 1 {
		return nil, errdefs.InvalidArgumentf("a list of variables takes at most one prefix, not %d", len(prefix))
	}
	q, err := variableQuery(KindVariables, strings.Join(prefix, ""))
	if err != nil {
		return nil, err
	}
	a, ok := c.lookup(q)
	if ok && safe && len(a.Variables) == 0 {
		c.miss(q)
	}
	return slices.Clone(a.Variables), nil
}

func (c *compiled) services() ([]ServiceSummary, error) {
	a, _ := c.lookup(Query{Kind: KindServices})
	out := slices.Clone(a.Services)
	for i := range out {
		out[i].Tags = slices.Clone(out[i].Tags)
	}
	return out, nil
}

// serviceName is TAG.NAME@REGION, in which the tag and the region may be missing.
var serviceName = regexp.MustCompile(`^(?:([a-zA-Z0-9_=:.\-]+)\.)?([a-zA-Z0-9_\-]+)(?:@([a-zA-Z0-9_\-]+))?$`)

// service takes a name, or a count, a key and a name. With a key it returns count
// instances, and mostly the same ones for that key when instances come and go.
func (c *compiled) service(args ...any) ([]Service, error) {
	count, key := int64(-1), ""
	switch len(args) {
	case 1:
	case 3:
		n, _, whole, err := number("nomadService", args[0])
		if err != nil || !whole || n < 1 {
			return nil, errdefs.InvalidArgumentf("nomadService: the count %v is not a whole number over 0", args[0])
		}
		text, ok := args[1].(string)
		if !ok {
			return nil, errdefs.InvalidArgumentf("nomadService: the key must be a text, not %T", args[1])
		}
		count, key = n, text
	default:
		return nil, errdefs.InvalidArgumentf("nomadService: takes a name, or a count, a key and a name")
	}
	name, _ := args[len(args)-1].(string)
	m := serviceName.FindStringSubmatch(name)
	if m == nil {
		return nil, errdefs.InvalidArgumentf("nomadService: %v is not a name of a service; it is NAME, TAG.NAME or NAME@REGION", args[len(args)-1])
	}
	a, _ := c.lookup(Query{Kind: KindService, Name: m[2], Region: m[3]})
	return choose(tagged(a.Service, m[1]), count, key), nil
}

// tagged copies the instances that have the tag, tags included: functions of
// templates may sort what they get in place.
func tagged(services []Service, tag string) []Service {
	out := make([]Service, 0, len(services))
	for _, s := range services {
		if tag == "" || slices.Contains(s.Tags, tag) {
			s.Tags = slices.Clone(s.Tags)
			out = append(out, s)
		}
	}
	return out
}

// choose takes the count instances of the lowest rendezvous hash with key.
func choose(list []Service, count int64, key string) []Service {
	if count < 0 {
		return list
	}
	return instances.Choose(list, int(min(count, math.MaxInt32)), key, func(s Service) string { return s.ID })
}
