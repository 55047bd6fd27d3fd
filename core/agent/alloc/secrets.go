// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// minSecret is the length in bytes from which secrets are replaced in texts. A shorter
// secret would match parts of unrelated words.
const minSecret = 6

// allSecrets adds the tokens of a task to the secrets of its templates.
func (r *Runner) allSecrets(name string, rendered map[string]string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	out := map[string]string{}
	for _, id := range t.job.ShownIdentities() {
		if text := t.tokens.known[id.Name]; text != "" {
			out[id.Variable()] = text
		}
	}
	if t.tokens.login != "" {
		out[consulTokenVars[0]] = t.tokens.login
	}
	maps.Copy(out, rendered)
	return out
}

// knowSecrets keeps the secrets in a task's templates and tokens, so that hide finds them.
func (r *Runner) knowSecrets(name string, rendered map[string]string) {
	secrets := r.allSecrets(name, rendered)
	names := slices.SortedFunc(maps.Keys(secrets), func(a, b string) int {
		// Of two secrets at the same place the longer one is replaced.
		return cmp.Or(len(secrets[b])-len(secrets[a]), strings.Compare(a, b))
	})
	var pairs []string
	for _, n := range names {
		if len(secrets[n]) >= minSecret {
			pairs = append(pairs, secrets[n], "<secret "+n+">")
		}
	}
	if len(pairs) == 0 {
		r.tasks[name].secrets.Store(nil)
		return
	}
	r.tasks[name].secrets.Store(strings.NewReplacer(pairs...))
}

// hide replaces the secrets of a task in an event before it is stored and shown: a plugin
// may quote them in its texts.
func (t *taskRun) hide(ev task.Event) task.Event {
	s := t.secrets.Load()
	if s == nil {
		return ev
	}
	switch e := ev.(type) {
	case task.Note:
		e.Event = hideEvent(s, e.Event)
		return e
	case task.Kill:
		e.Reason = hideEvent(s, e.Reason)
		return e
	case task.StartFailed:
		e.Err, e.Details = s.Replace(e.Err), hideValues(s, e.Details)
		return e
	case task.Exited:
		e.Err = s.Replace(e.Err)
		return e
	case task.UpdateFailed:
		e.Err = s.Replace(e.Err)
		return e
	}
	return ev
}

func hideEvent(s *strings.Replacer, e model.TaskEvent) model.TaskEvent {
	e.Message, e.DisplayMessage, e.DriverMessage = s.Replace(e.Message), s.Replace(e.DisplayMessage), s.Replace(e.DriverMessage)
	e.Details = hideValues(s, e.Details)
	return e
}

func hideValues(s *strings.Replacer, in map[string]string) map[string]string {
	out := maps.Clone(in)
	for name, value := range out {
		out[name] = s.Replace(value)
	}
	return out
}
