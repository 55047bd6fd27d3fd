// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"slices"
	"strings"
	"testing"
)

func TestTheIdentityOfANodeIsShownAndRenewed(t *testing.T) {
	answers := doubters()
	answers["GET /v1/client/identity?node_id=bbbbbbbb-2"] = `{"Claims":{"nomad_node_id":"bbbbbbbb-2","exp":1800000000,"jti":"x"}}`
	answers["PUT /v1/client/identity/renew?node_id=bbbbbbbb-2"] = `{}`
	f := newFake(t, answers)
	if r := f.at(t, nil, "node", "identity", "get", "bbbbbbbb"); r.code != 0 || !strings.Contains(r.out, "nomad_node_id") || !strings.Contains(r.out, "bbbbbbbb-2") || strings.Contains(r.out, "1.8e+09") {
		t.Errorf("%d %s %s", r.code, r.out, r.err)
	}
	if r := f.at(t, nil, "node", "identity", "get", "-json", "bbbbbbbb"); r.code != 0 || !strings.Contains(r.out, `"jti": "x"`) {
		t.Errorf("%d %s %s", r.code, r.out, r.err)
	}
	if r := f.at(t, nil, "node", "identity", "renew", "bbbbbbbb"); r.code != 0 {
		t.Errorf("%d %s", r.code, r.err)
	}
	if want := []string{"PUT /v1/client/identity/renew?node_id=bbbbbbbb-2 {\"NodeID\":\"bbbbbbbb-2\"}"}; !slices.Equal(f.writes(), want) {
		t.Errorf("asked %q", f.writes())
	}
}

func TestATokenForANewNodeIsPrinted(t *testing.T) {
	f := newFake(t, map[string]string{"PUT /v1/acl/identity/client-introduction-token": `{"JWT":"a.b.c"}`})
	if r := f.at(t, nil, "node", "intro", "create", "-node-name", "web", "-node-pool", "edge", "-ttl", "10m"); r.code != 0 || r.out != "a.b.c\n" {
		t.Errorf("%d %q %s", r.code, r.out, r.err)
	}
	if r := f.at(t, nil, "node", "intro", "create", "-json"); r.code != 0 || !strings.Contains(r.out, `"JWT": "a.b.c"`) {
		t.Errorf("%d %q %s", r.code, r.out, r.err)
	}
	for _, ttl := range []string{"10", "-5m", "0s", "x"} {
		if r := f.at(t, nil, "node", "intro", "create", "-ttl", ttl); r.code == 0 || !strings.Contains(r.err, "-ttl") {
			t.Errorf("-ttl %s: %d %s", ttl, r.code, r.err)
		}
	}
}
