// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package srvname_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/srvname"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

const service = "_drover._tcp.example.com"

func TestMain(m *testing.M) {
	testkit.UseDNS()
	os.Exit(m.Run())
}

func TestTheNameOfAServiceLeadsToItsServersAsTheyAreNow(t *testing.T) {
	dns := testkit.NewDNS(t)
	if _, err := srvname.Lookup(t.Context(), service); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), service) {
		t.Errorf("a name that nobody knows: %v", err)
	}
	dns.Set(service, "two.example.com:4648", "one.example.com:5000")
	for _, want := range [][]string{{"two.example.com:4648", "one.example.com:5000"}, {"nine.example.com:4648"}} {
		dns.Set(service, want...)
		if got, err := srvname.Lookup(t.Context(), service); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	got, err := srvname.Expand(t.Context(), []string{"a:1", service, "_gone._tcp.example.com"})
	if err != nil || !slices.Equal(got, []string{"a:1", "nine.example.com:4648"}) {
		t.Errorf("%v, %v: a name that nobody knows is no reason not to ask the others", got, err)
	}
	if _, err := srvname.Expand(t.Context(), []string{"_gone._tcp.example.com"}); err == nil {
		t.Error("nobody is behind any of the names, and there is no error")
	}
}

func TestWhatIsNoNameOfAServiceIsRefused(t *testing.T) {
	for _, name := range []string{service, service + ".", "_x._udp.a"} {
		if err := srvname.Check(name); err != nil || !srvname.Is(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, says := range map[string]string{
		service + ":4648": "it has no port", "_drover": "give one such as", "_drover.example.com": "give one such as", "_._tcp.x": "give one such as",
		"_a._tcp..x": "is empty", "_a._tcp.x/y": "nothing else but the name", "_a._tcp": "give one such as",
	} {
		if err := srvname.Check(name); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
