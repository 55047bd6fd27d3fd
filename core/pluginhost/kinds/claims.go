// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Names are claimed one by one. A name belongs to the plugin that serves it, else to the
// one that served it last (Config.Owner), else to the first by file name among plugins that
// start at the same time (turns). The host uses a plugin without the names that it does not
// get, and the plugin's status lists them with the reasons.

// names are the names that a plugin may serve. They become parts of attributes and of
// commands, and are shown on terminals.
var names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func checkName(noun, name string) error {
	if names.MatchString(name) {
		return nil
	}
	return errdefs.FailedPreconditionf("the %s name %.80q is not allowed: a name has 1 to 64 characters, which are letters, digits, dots, dashes and underscores; rename it in the plugin", noun, name)
}

// refusedName is a name that a plugin serves and did not get.
type refusedName struct {
	holder string // the plugin that has the name; "" means that nobody may have it
	why    error
}

// claim reserves a backend's name for a plugin and returns its slot. If the name is not
// allowed or another plugin has it, claim records the reason and returns false.
func (k *kind[B, P, S]) claim(b B, plugin string) (slot S, ok bool) {
	name := k.nameOf(b)
	err := checkName(k.noun, name)
	last := k.owner(k.id(name))
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byName[name]
	holder := plugin
	switch {
	case e != nil && e.plugin != "":
		holder = e.plugin
	case last != "":
		holder = last
	}
	if err == nil && holder != plugin {
		err = errdefs.AlreadyExistsf("%s %q is served by plugin %q already; remove or disable one of the two plugins", k.noun, name, holder)
	} else {
		holder = ""
	}
	if err != nil {
		if k.refused[name] == nil {
			k.refused[name] = map[string]refusedName{}
		}
		k.refused[name][plugin] = refusedName{holder, err}
		return slot, false
	}
	k.forgive(plugin, func(refused string) bool { return refused == name })
	if e == nil {
		e = &entry[S]{slot: k.slot(b, plugin)}
		k.byName[name] = e
	}
	e.plugin = plugin
	return e.slot, true
}

// id makes a name of this kind unique among the names of all kinds.
func (k *kind[B, P, S]) id(name string) string { return k.noun + " " + name }

// forgive forgets which of the names a plugin did not get. The lock must be held.
func (k *kind[B, P, S]) forgive(plugin string, which func(name string) bool) {
	for name, by := range k.refused {
		if !which(name) {
			continue
		}
		if delete(by, plugin); len(by) == 0 {
			delete(k.refused, name)
		}
	}
}

// unclaimed returns why a plugin did not get names, in the order of the names, and the ids
// of the names that no process serves now.
func (k *kind[B, P, S]) unclaimed(plugin string) (why []error, unserved []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(k.refused)) {
		r, is := k.refused[name][plugin]
		if !is {
			continue
		}
		why = append(why, r.why)
		e := k.byName[name]
		if r.holder != "" && (e == nil || e.plugin == "") {
			unserved = append(unserved, k.id(name))
		}
	}
	return why, unserved
}

// Expect notes that a plugin is being started and will claim names. Settled ends that.
func (s *Set) Expect(plugin string) { s.turns.expect(plugin) }

// Settled notes that the first start of a plugin has ended.
func (s *Set) Settled(plugin string) { s.turns.settle(plugin) }

// Warnings lists the parts of a plugin that the host does not use: names that it did not
// get, and attributes that it may not set.
func (s *Set) Warnings(plugin string) []string {
	var out []string
	for _, k := range s.all {
		why, _ := k.unclaimed(plugin)
		for _, w := range why {
			out = append(out, w.Error())
		}
	}
	return append(out, s.Drivers.foreignAttributes(plugin)...)
}

// refusals returns why a plugin got none of the names that it serves. The reasons are kept, so
// that Freed knows which names the plugin waits for.
func (s *Set) refusals(plugin string) error {
	var all []error
	for _, k := range s.all {
		why, _ := k.unclaimed(plugin)
		all = append(all, why...)
		k.release(plugin, []string{})
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// Freed reports whether a name is free now that the plugin did not get.
func (s *Set) Freed(plugin string) bool {
	for _, k := range s.all {
		_, unserved := k.unclaimed(plugin)
		for _, id := range unserved {
			if owner := s.owner(id); owner == "" || owner == plugin {
				return true
			}
		}
	}
	return false
}

// turnLimit bounds how long a plugin waits for the plugins before it to claim their names.
const turnLimit = 15 * time.Second

// turns lets plugins that are started at the same time claim names in the order of their
// own names, because it is random which of them is ready first.
type turns struct {
	mu       sync.Mutex
	expected map[string]bool
	changed  chan struct{} // closed and replaced at each change
}

func newTurns() *turns { return &turns{expected: map[string]bool{}, changed: make(chan struct{})} }

func (t *turns) expect(plugin string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected[plugin] = true
}

func (t *turns) settle(plugin string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expected[plugin] {
		delete(t.expected, plugin)
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// first returns a plugin that is expected; "" if none is.
func (t *turns) first() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, plugin := range slices.Sorted(maps.Keys(t.expected)) {
		return plugin
	}
	return ""
}

// wait returns when no plugin before this one is expected, or after a limit.
func (t *turns) wait(ctx context.Context, plugin string) {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	for {
		t.mu.Lock()
		before, changed := false, t.changed
		for other := range t.expected {
			before = before || other < plugin
		}
		t.mu.Unlock()
		if !before {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// foreignAttributes says which attributes of a plugin's drivers are left out.
func (d *Drivers) foreignAttributes(plugin string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.byName)) {
		if e := d.byName[name]; e.plugin == plugin && len(e.slot.dropped) > 0 {
			out = append(out, fmt.Sprintf("driver %q sets %q, which are left out: a driver may set driver.%s and attributes that begin with driver.%s.", name, e.slot.dropped, name, name))
		}
	}
	return out
}
