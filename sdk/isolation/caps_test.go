// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package isolation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/sdk/isolation"
)

func TestCapabilitiesAreTheAllowedPartOfTheDefaultPlusWhatIsAddedLessWhatIsDropped(t *testing.T) {
	const chown, kill, netAdmin = 0, 5, 12
	for _, x := range []struct {
		name             string
		allow, add, drop []string
		bounding, named  []int
	}{
		{"nothing asked for", []string{"chown", "kill"}, nil, nil, []int{chown, kill}, nil},
		{"dropped", []string{"chown", "kill"}, nil, []string{"CAP_KILL"}, []int{chown}, nil},
		{"all dropped but one", []string{"all"}, []string{"net_admin"}, []string{"all"}, []int{netAdmin}, []int{netAdmin}},
		{"all added", []string{"chown", "net_admin"}, []string{"ALL"}, nil, []int{chown, netAdmin}, []int{chown, netAdmin}},
		{"added and dropped", []string{"chown", "net_admin"}, []string{"net_admin"}, []string{"net_admin"}, []int{chown}, nil},
		{"nothing allowed", nil, nil, nil, nil, nil},
	} {
		bounding, named, err := isolation.Capabilities(x.allow, x.add, x.drop)
		if err != nil || !slices.Equal(bounding, x.bounding) || !slices.Equal(named, x.named) {
			t.Errorf("%s: %v, %v, %v; want %v, %v", x.name, bounding, named, err, x.bounding, x.named)
		}
	}
	var refused *isolation.NotAllowedError
	if _, _, err := isolation.Capabilities([]string{"chown"}, []string{"kill", "chown"}, nil); !errors.As(err, &refused) || !slices.Equal(refused.Names, []string{"KILL"}) || err.Error() != "capabilities kill are not allowed" {
		t.Errorf("beyond the allowed: %v", err)
	}
	if err := isolation.CheckCapabilities([]string{"fly"}); err == nil || !strings.Contains(err.Error(), "sys_admin") {
		t.Errorf("a capability that does not exist: %v", err)
	}
}
