// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	names "github.com/drover-project/drover/core/agent/dns"
)

// Most clients take an answer without addresses as a name that has none.
func TestAServiceThatStandsForAnotherNameIsAnsweredWithItsAddresses(t *testing.T) {
	w := newWorld()
	for service, address := range map[string]string{
		"alias": "Web.service.drover", "second": "alias.service.drover.", "tagged": "green.web.service.drover", "lost": "none.service.drover",
		"self": "self.service.drover", "one": "two.service.drover", "two": "one.service.drover", "gone": "gone.example.com",
	} {
		w.set("default/"+service, names.Instance{ID: "1", Address: address, Port: 1})
	}
	knows := upstream(t, func(w dns.ResponseWriter, r *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeNameError)) })
	_, at := start(t, w, func(c *names.Config) { c.Recursors = []string{knows} })
	for name, c := range map[string]struct {
		want  []string
		rcode int
	}{
		"alias":  {[]string{"10.0.0.1", "10.0.0.2", "Web.service.drover."}, dns.RcodeSuccess},
		"second": {[]string{"10.0.0.1", "10.0.0.2", "Web.service.drover.", "alias.service.drover."}, dns.RcodeSuccess},
		"tagged": {[]string{"10.0.0.2", "green.web.service.drover."}, dns.RcodeSuccess},
		"lost":   {[]string{"none.service.drover."}, dns.RcodeNameError},
		"gone":   {[]string{"gone.example.com."}, dns.RcodeNameError},
		"self":   {[]string{"self.service.drover."}, dns.RcodeServerFailure},
		"one":    {[]string{"one.service.drover.", "two.service.drover."}, dns.RcodeServerFailure},
	} {
		got := ask(t, at, "udp", name+".service.drover", dns.TypeA)
		if !slices.Equal(shown(got.Answer), c.want) || got.Rcode != c.rcode {
			t.Errorf("%s: %s", name, got)
		}
	}
	_, at = start(t, w, func(c *names.Config) { c.Recursors = []string{"127.0.0.1:1"} })
	if got := ask(t, at, "udp", "gone.service.drover", dns.TypeA); got.Rcode != dns.RcodeServerFailure || !strings.Contains(got.String(), "CNAME") {
		t.Errorf("while no resolver answers: %s", got)
	}
}
