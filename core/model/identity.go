// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DefaultAudience is the audience of identities that do not name one; existing
// programs expect this value. Only tokens for it are accepted by the API.
const DefaultAudience = "nomadproject.io"

// DefaultIdentity is the name of the identity that every task has.
const DefaultIdentity = "default"

// ConsulAudience is the audience of identities of services that do not name one.
const ConsulAudience = "consul.io"

// consulIdentity begins the names of identities with which tasks log in at Consul; the name
// of the cluster follows.
const consulIdentity = "consul_"

// ConsulIdentity returns the name of the identity with which a task logs in at a cluster of
// Consul.
func ConsulIdentity(cluster string) string { return consulIdentity + cluster }

// MinIdentityTTL is the shortest lifetime of a token: nodes renew it at half of it.
const MinIdentityTTL = 5 * time.Second

// APISocket is the task's socket for requests to its agent, below the task's folder.
const APISocket = "secrets/api.sock"

// ExtraClaims are the claims of WorkloadIdentity.ExtraClaims. The prefix "nomad_", with
// which they stand in the token, may be left out.
var ExtraClaims = []string{"nomad_node_class", "nomad_node_datacenter", "nomad_node_id", "nomad_node_name", "nomad_node_pool"}

// WorkloadIdentity requests a signed token that identifies a workload.
type WorkloadIdentity struct {
	Name         string
	Audience     []string
	ChangeMode   string
	ChangeSignal string
	Env          bool
	File         bool
	Filepath     string
	ServiceName  string
	TTL          time.Duration
	ExtraClaims  []string
}

// IsDefault reports whether this is the identity that every task has.
func (i *WorkloadIdentity) IsDefault() bool { return i.Name == "" || i.Name == DefaultIdentity }

// Shown reports whether the task is given the token.
func (i *WorkloadIdentity) Shown() bool { return i.Env || i.File }

// Variable is the environment variable that has the token.
func (i *WorkloadIdentity) Variable() string {
	if i.IsDefault() {
		return "NOMAD_TOKEN"
	}
	return "NOMAD_TOKEN_" + notInNames.ReplaceAllString(i.Name, "_")
}

// Path is the file that has the token, below the task's folder; ok is false if the path
// leads out of the task's folder or cannot be a file of the task.
func (i *WorkloadIdentity) Path() (rel string, ok bool) {
	if i.Filepath == "" {
		if i.IsDefault() {
			return "secrets/nomad_token", true
		}
		return "secrets/nomad_" + i.Name + ".jwt", true
	}
	const root = "/task/"
	given := identityDirs.Replace(i.Filepath)
	if path.IsAbs(given) && !strings.HasPrefix(given, "/secrets/") && !strings.HasPrefix(given, "/local/") {
		return "", false
	}
	rel, inside := strings.CutPrefix(path.Join(root, given), root)
	first, _, _ := strings.Cut(rel, "/")
	switch {
	case !inside, strings.Contains(rel, "${"), strings.ContainsAny(rel, "\x00\\"), strings.HasSuffix(given, "/"):
		return "", false
	case first == "private", rel == "secrets", rel == "local", rel == "tmp", rel == APISocket:
		return "", false
	}
	return rel, true
}

// identityDirs are the folders of a task by which a path may begin.
var identityDirs = strings.NewReplacer("${NOMAD_SECRETS_DIR}", "secrets", "${NOMAD_TASK_DIR}", "local")

var (
	identityName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	notInNames   = regexp.MustCompile(`[^a-zA-Z0-9_]`)
)

// Claims are the extra claims with the names that they have in the token.
func (i *WorkloadIdentity) Claims() []string {
	var out []string
	for _, c := range i.ExtraClaims {
		out = append(out, "nomad_"+strings.TrimPrefix(c, "nomad_"))
	}
	return out
}

// AllIdentities yields all identities of a task, the default one first.
func (t *Task) AllIdentities() []*WorkloadIdentity {
	var out []*WorkloadIdentity
	if t.Identity != nil {
		out = append(out, t.Identity)
	}
	return append(out, t.Identities...)
}

// ShownIdentities returns the identities whose tokens the task gets.
func (t *Task) ShownIdentities() []*WorkloadIdentity {
	return slices.DeleteFunc(t.AllIdentities(), func(i *WorkloadIdentity) bool { return !i.Shown() })
}

// ConsulCluster returns the Consul cluster of a task of the group: that of its consul block, or
// else of the group's.
func (tg *TaskGroup) ConsulCluster(t *Task) string {
	own := tg.Consul
	if t != nil && t.Consul != nil {
		own = t.Consul
	}
	if own == nil || own.Cluster == "" {
		return defaultConsulCluster
	}
	return own.Cluster
}

// defaultConsulCluster is the Consul cluster of blocks that name none.
const defaultConsulCluster = "default"

// NameIdentity gives the identity of a service its name, which is unique among the services
// of its task, or of its group if the task is "", and the audience if it has none.
func (s *Service) NameIdentity(task string) {
	if s.Identity == nil {
		return
	}
	parts := slices.DeleteFunc([]string{task, s.Name, s.PortLabel}, func(part string) bool { return part == "" })
	s.Identity.Name = "consul-service_" + strings.Join(parts, "-")
	s.Identity.ServiceName = s.Name
	if len(s.Identity.Audience) == 0 {
		s.Identity.Audience = []string{ConsulAudience}
	}
}

// IdentityByName returns an identity of the task; nil if it has none of that name.
func (t *Task) IdentityByName(name string) *WorkloadIdentity {
	for _, i := range t.AllIdentities() {
		if i.Name == name || i.IsDefault() && (name == "" || name == DefaultIdentity) {
			return i
		}
	}
	return nil
}

func (t *Task) validateIdentities(p *ValidationError) {
	variables, files := map[string]string{}, map[string]string{}
	for _, i := range t.AllIdentities() {
		i.validate(p)
		if i != t.Identity && i.IsDefault() {
			p.addf("identity %q: a task has one default identity; give the others names of their own", i.Name)
			continue
		}
		if other, taken := variables[i.Variable()]; taken {
			p.addf("identities %q and %q have names that are one in the environment (%s): choose others", other, i.Name, i.Variable())
		}
		variables[i.Variable()] = i.Name
		if file, ok := i.Path(); ok && i.File {
			if other, taken := files[file]; taken {
				p.addf("identities %q and %q have the same file %q", other, i.Name, file)
			}
			files[file] = i.Name
		}
	}
}

// validateOfService checks what an identity of a service says; its name is not the author's.
func (i *WorkloadIdentity) validateOfService(p *ValidationError, service string) {
	c := *i
	c.Name, c.Env, c.File, c.Filepath = "service", false, false, ""
	var found ValidationError
	c.validate(&found)
	p.under(fmt.Sprintf("service %q", service), found)
}

func (i *WorkloadIdentity) validate(p *ValidationError) {
	bad := func(format string, args ...any) { p.addf("identity %q: "+format, append([]any{i.Name}, args...)...) }
	if i.Name != "" && !identityName.MatchString(i.Name) {
		bad("a name has 1 to 128 letters, digits, _ or -")
	}
	if slices.Contains(i.Audience, "") {
		bad("an audience must not be empty")
	}
	switch i.ChangeMode {
	case "", "noop", "restart":
		if i.ChangeSignal != "" {
			bad("change_signal needs change_mode \"signal\"")
		}
	case "signal":
		if i.ChangeSignal == "" {
			bad("change_mode \"signal\" needs a change_signal")
		} else if !isSignal(i.ChangeSignal) {
			bad("change_signal: "+unknownSignal, i.ChangeSignal)
		}
	default:
		bad("change_mode is %q, which is none of noop, restart, signal", i.ChangeMode)
	}
	switch {
	case i.TTL < 0 || i.TTL > 0 && i.TTL < MinIdentityTTL:
		bad("ttl is %s; give at least %s, or leave it out", i.TTL, MinIdentityTTL)
	case i.TTL > 0 && i.IsDefault():
		bad("the default identity cannot have a ttl: its token ends with the allocation; use an identity with a name")
	}
	if i.Filepath != "" && !i.File {
		bad("filepath needs file = true")
	}
	if _, ok := i.Path(); !ok {
		bad("filepath %q is not a file inside of the task's folder: use one below ${NOMAD_SECRETS_DIR} (secrets/) or ${NOMAD_TASK_DIR} (local/)", i.Filepath)
	}
	for _, c := range i.Claims() {
		if !slices.Contains(ExtraClaims, c) {
			bad("extra claim %q is not known; known are %s", c, strings.Join(ExtraClaims, ", "))
		}
	}
}
