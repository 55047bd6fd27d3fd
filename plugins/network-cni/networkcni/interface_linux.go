// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni

import (
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// hasInterface says what a namespace lacks of the interface that the programs have made.
func hasInterface(path string, a *network.Attachment) error {
	ns, in, err := netspace.Within(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	defer in.Close()
	link, err := in.LinkByName(a.Interface)
	if err != nil {
		return errdefs.FailedPreconditionf("the namespace %s has no interface %q: %w", path, a.Interface, err)
	}
	has, err := in.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return errdefs.FailedPreconditionf("list the addresses of the namespace %s: %w", path, err)
	}
	for _, want := range a.Addresses {
		if !slices.ContainsFunc(has, func(x netlink.Addr) bool { return x.IPNet.String() == want.Prefix }) {
			return errdefs.FailedPreconditionf("the interface %q of the namespace %s has lost the address %s", a.Interface, path, want.Prefix)
		}
	}
	return nil
}
