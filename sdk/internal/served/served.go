// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package served finds the plugins of a process by name: a process can serve several
// plugins of a kind, and each call of a host names the one that it is for. It does not know
// the kinds. Only the contracts of the sdk import it.
package served

import (
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Plugins are the plugins of one kind that a process serves.
type Plugins[P any] struct {
	missing string
	order   []string
	byName  map[string]P
}

// New returns the plugins, in their order. missing begins the error about an unknown name,
// such as "this process has no collector".
func New[P any](missing string, plugins []P, name func(P) string) *Plugins[P] {
	s := &Plugins[P]{missing: missing, byName: make(map[string]P, len(plugins))}
	for _, p := range plugins {
		n := name(p)
		s.order = append(s.order, n)
		s.byName[n] = p
	}
	return s
}

// Get returns the plugin with the name. Its error is one of gRPC.
func (s *Plugins[P]) Get(name string) (P, error) {
	p, ok := s.byName[name]
	if !ok {
		return p, errdefs.ToGRPC(errdefs.NotFoundf("%s %q; it has %s", s.missing, name, strings.Join(s.order, ", ")))
	}
	return p, nil
}

// Infos returns the messages that describe the plugins to a host. Its error is one of gRPC.
func Infos[P, M any](s *Plugins[P], toPB func(P) (M, error)) ([]M, error) {
	var out []M
	for _, name := range s.order {
		m, err := toPB(s.byName[name])
		if err != nil {
			return nil, errdefs.ToGRPC(err)
		}
		out = append(out, m)
	}
	return out, nil
}

// Clients returns the host's client for each of the messages, which are a process's answer;
// err is the error of gRPC with which it came.
func Clients[M, I, P any](infos []M, err error, fromPB func(M) (I, error), client func(I) P) ([]P, error) {
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	var out []P
	for _, m := range infos {
		info, err := fromPB(m)
		if err != nil {
			return nil, err
		}
		out = append(out, client(info))
	}
	return out, nil
}
