// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/drover-project/drover/sdk/errdefs"
)

// pass lets packets of the bridge pass the chain FORWARD of iptables where that drops what
// nothing accepts, as on machines with Docker: an accept in another table does not help.
func (s settings) pass(wanted bool) error {
	c, err := openRules()
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	owner := s.tableName()
	for _, fam := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		t := &nftables.Table{Name: "filter", Family: fam}
		chain, err := c.ListChain(t, "FORWARD")
		if err != nil { // no iptables, or one that does not use nftables
			continue
		}
		rules, err := c.GetRules(t, chain)
		if err != nil {
			return fmt.Errorf("read the chain FORWARD: %w", err)
		}
		drops := chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop
		has := count(rules, owner)
		if has == 2 && drops && wanted || has == 0 && !(drops && wanted) {
			continue
		}
		for _, r := range rules {
			if string(r.UserData) == owner {
				if err := c.DelRule(r); err != nil {
					return fmt.Errorf("remove a rule of the chain FORWARD: %w", err)
				}
			}
		}
		if drops && wanted {
			for _, key := range []expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME} {
				c.InsertRule(&nftables.Rule{Table: t, Chain: chain, UserData: []byte(owner), Exprs: append(iface(key, s.name), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept})})
			}
		}
	}
	if err := c.Flush(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errdefs.FailedPreconditionf("let packets of the bridge pass the chain FORWARD: %w", err)
	}
	return s.passLegacy(wanted)
}

func count(rules []*nftables.Rule, owner string) (n int) {
	for _, r := range rules {
		if string(r.UserData) == owner {
			n++
		}
	}
	return n
}
