// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

func TestTheChoiceOfVersions(t *testing.T) {
	contracts := func(text string) []plugin.Kind {
		var out []plugin.Kind
		for _, k := range strings.Fields(text) {
			out = append(out, plugin.Kind{Name: k[:len(k)-1], Version: int(k[len(k)-1] - '0')})
		}
		return out
	}
	for _, c := range []struct{ serves, known, chosen, mismatch, fails string }{
		{serves: "driver1", known: "driver1", chosen: "driver1"},
		{serves: "driver1", known: "driver2 driver1", chosen: "driver1"},                                                             // an old plugin on a host that keeps N and N-1
		{serves: "driver1 driver2", known: "driver2 driver1", chosen: "driver2"},                                                     // the newest of both
		{serves: "driver2 driver1", known: "driver1", chosen: "driver1"},                                                             // a new plugin on an old host
		{serves: "driver1 secret1", known: "driver1", chosen: "driver1"},                                                             // a kind of the future is left alone
		{serves: "driver3 device1", known: "driver2 driver1 device1", chosen: "device1", mismatch: "upgrade this agent"},             // a part fits
		{serves: "driver3", known: "driver2 driver1", fails: "made for agents with driver v3: upgrade this agent"},                   // too new
		{serves: "driver1", known: "driver3 driver2", fails: "driver v1 is too old: install a version of the plugin with driver v3"}, // too old
		{serves: "secret1", known: "driver1", fails: "install a version of the plugin that fits"},
		{known: "driver1", fails: "serves []"},
	} {
		chosen, mismatches, err := kinds.Choose(contracts(c.serves), contracts(c.known))
		got := strings.NewReplacer(" v", "", "[", "", "]", "").Replace(strings.Join(strings.Fields(kinds.KindText(chosen)), " "))
		if got != c.chosen || !strings.Contains(strings.Join(mismatches, "; "), c.mismatch) {
			t.Errorf("%q of %q: chosen %q, mismatches %q, %v", c.serves, c.known, got, mismatches, err)
		}
		if (err != nil) != (c.fails != "") || err != nil && (!errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%q of %q: %v, want %q", c.serves, c.known, err, c.fails)
		}
	}
}
