// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// family is what differs between the rules of IPv4 and IPv6.
type family struct {
	table        nftables.TableFamily
	proto        uint32
	size         uint32 // of an address
	source, dest uint32 // where addresses are in a header
	loopback     netip.Prefix
}

var (
	four = family{nftables.TableFamilyIPv4, unix.NFPROTO_IPV4, 4, 12, 16, netip.MustParsePrefix("127.0.0.0/8")}
	six  = family{nftables.TableFamilyIPv6, unix.NFPROTO_IPV6, 16, 8, 24, netip.MustParsePrefix("::1/128")}
)

func (s settings) tableName() string { return "drover-" + s.name }

// probe says why this machine cannot have networks; nil if it can.
func probe() error {
	if err := netspace.Probe(); err != nil {
		return err
	}
	c, err := openRules()
	if err == nil {
		_, err = c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	}
	if err != nil {
		return errdefs.FailedPreconditionf("the kernel's nftables cannot be used; load the module nf_tables: %w", err)
	}
	return nil
}

// transaction is how many bytes the kernel may have of a transaction, and of its answers. It
// answers each rule, and takes no memory for what is not used. The default of 200 KB is
// enough for 100 ports.
const transaction = 64 << 20

// openRules opens nftables. Changes are made at its Flush, as one transaction.
func openRules() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *mdnetlink.Conn) error {
		return errors.Join(c.SetReadBuffer(transaction), c.SetWriteBuffer(transaction))
	}))
}

// writeRules replaces the tables of this bridge by what the records need, in one
// transaction: packets meet the rules of before or those of after. Without records it
// leaves none.
func (s settings) writeRules(all map[string]*record) error {
	c, err := openRules()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	inUse := false
	for _, r := range all {
		inUse = inUse || r.Network == bridged
	}
	for _, subnet := range s.subnets {
		f := four
		if subnet.Addr().Is6() {
			f = six
		}
		t := &nftables.Table{Name: s.tableName(), Family: f.table}
		c.AddTable(t) // so that there is something to delete
		c.DelTable(t)
		if inUse {
			w := &writer{c: c, f: f, s: s, t: c.AddTable(t), subnet: subnet}
			w.write(all)
		}
	}
	if err := c.Flush(); err != nil {
		return errdefs.FailedPreconditionf("write the rules of nftables: %w", err)
	}
	return s.pass(inUse)
}

// writer writes the table of one family.
type writer struct {
	c      *nftables.Conn
	f      family
	s      settings
	t      *nftables.Table
	subnet netip.Prefix
}

func (w *writer) write(all map[string]*record) {
	ports := w.c.AddChain(&nftables.Chain{Name: "ports", Table: w.t})
	chain := func(name string, typ nftables.ChainType, hook *nftables.ChainHook, prio *nftables.ChainPriority) *nftables.Chain {
		return w.c.AddChain(&nftables.Chain{Name: name, Table: w.t, Type: typ, Hooknum: hook, Priority: prio})
	}
	jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: ports.Name}
	for name, hook := range map[string]*nftables.ChainHook{"prerouting": nftables.ChainHookPrerouting, "output": nftables.ChainHookOutput} {
		c := chain(name, nftables.ChainTypeNAT, hook, nftables.ChainPriorityNATDest)
		w.rule(c, "", local(), []expr.Any{jump})
	}
	// route_localnet would let allocs reach what listens on the machine's loopback.
	guard := chain("guard", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	w.rule(guard, "", iface(expr.MetaKeyIIFNAME, w.s.name), w.within(w.f.dest, w.f.loopback, true), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})

	masquerade := []expr.Any{&expr.Masq{}}
	after := chain("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	w.rule(after, "", w.within(w.f.source, w.subnet, true), w.within(w.f.dest, w.subnet, false), masquerade)
	// Answers to the machine's loopback and to an alloc behind the same bridge must come
	// back through the machine, which translates them.
	w.rule(after, "", iface(expr.MetaKeyOIFNAME, w.s.name), w.within(w.f.source, w.f.loopback, true), masquerade)
	w.rule(after, "", iface(expr.MetaKeyOIFNAME, w.s.name), w.within(w.f.source, w.subnet, true), translated(), masquerade)

	for _, id := range slices.Sorted(maps.Keys(all)) {
		for _, addr := range all[id].Addresses {
			if addr.Addr().Is4() != w.subnet.Addr().Is4() {
				continue
			}
			for _, p := range all[id].Ports {
				w.port(ports, id, addr.Addr(), p)
			}
		}
	}
}

// port leads a port of the machine to an alloc, for TCP and UDP.
func (w *writer) port(chain *nftables.Chain, id string, to netip.Addr, p network.Port) {
	var host []expr.Any
	if ip, err := netip.ParseAddr(p.HostIP); err == nil && !ip.IsUnspecified() {
		if ip.Is4() != to.Is4() {
			return
		}
		host = w.within(w.f.dest, netip.PrefixFrom(ip, ip.BitLen()), true)
	}
	for _, proto := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		w.rule(chain, id, host, []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(uint16(p.HostPort))},
			&expr.Immediate{Register: 1, Data: to.AsSlice()},
			&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(uint16(p.Port))},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: w.f.proto, RegAddrMin: 1, RegProtoMin: 2},
		})
	}
}

func (w *writer) rule(chain *nftables.Chain, owner string, parts ...[]expr.Any) {
	w.c.AddRule(&nftables.Rule{Table: w.t, Chain: chain, Exprs: slices.Concat(parts...), UserData: []byte(owner)})
}

// local matches packets to an address of the machine.
func local() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// translated matches packets whose destination was translated.
func translated() []expr.Any {
	const dstNAT = 1 << 5 // IPS_DST_NAT
	return []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATUS},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(dstNAT), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func iface(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded}}
}

// within matches packets whose address at the offset is in a subnet, or is not.
func (w *writer) within(offset uint32, subnet netip.Prefix, in bool) []expr.Any {
	op := expr.CmpOpEq
	if !in {
		op = expr.CmpOpNeq
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: w.f.size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: w.f.size, Mask: prefix(subnet).Mask, Xor: make([]byte, w.f.size)},
		&expr.Cmp{Op: op, Register: 1, Data: subnet.Masked().Addr().AsSlice()},
	}
}

// inspectRules says whether the ports of a record lead to it.
func (s settings) inspectRules(rec *record) error {
	c, err := openRules()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	for _, addr := range rec.Addresses {
		f := four
		if addr.Addr().Is6() {
			f = six
		}
		t := &nftables.Table{Name: s.tableName(), Family: f.table}
		rules, err := c.GetRules(t, &nftables.Chain{Name: "ports", Table: t})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("read the rules of nftables: %w", err)
		}
		if want := s.rulesOf(rec, f); want > 0 && count(rules, rec.AllocID) != want {
			return errdefs.FailedPreconditionf("the port maps of alloc %s are not in the table %s of nftables any more", rec.AllocID, s.tableName())
		}
	}
	return nil
}

// rulesOf is the number of rules of a record's ports.
func (s settings) rulesOf(rec *record, f family) (n int) {
	for _, p := range rec.Ports {
		ip, err := netip.ParseAddr(p.HostIP)
		if err != nil || ip.IsUnspecified() || ip.Is4() == (f.size == 4) {
			n += 2
		}
	}
	return n
}

func count(rules []*nftables.Rule, owner string) (n int) {
	for _, r := range rules {
		if string(r.UserData) == owner {
			n++
		}
	}
	return n
}

// pass lets packets of the bridge pass the chain FORWARD of iptables where that drops what
// nothing accepts, as on machines with Docker: an accept in another table does not help.
func (s settings) pass(wanted bool) error {
	c, err := openRules()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
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
	return nil
}
