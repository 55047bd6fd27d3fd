// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"strconv"
	"sync"

	volume "github.com/drover-project/drover/sdk/volume/v1"
)

const (
	// maxSent is the largest number of secrets that are remembered.
	maxSent = 4096
	// minSent is the length below which a secret is not remembered: it would be in texts that
	// have nothing to do with it.
	minSent = 6
)

// sent are the secrets that a driver was told since this process started, in memory only.
type sent struct {
	mu     sync.Mutex
	values map[string]bool
}

func (s *sent) add(secrets volume.Secrets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, value := range secrets {
		if len(value) < minSent || s.values[value] {
			continue
		}
		if s.values == nil || len(s.values) >= maxSent {
			s.values = map[string]bool{}
		}
		s.values[value] = true
	}
}

// with returns the secrets of a call and those that were sent before.
func (s *sent) with(secrets volume.Secrets) volume.Secrets {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := volume.Secrets{}
	for value := range s.values {
		out["sent "+strconv.Itoa(len(out))] = value
	}
	for name, value := range secrets {
		out["of the call "+name] = value
	}
	return out
}
