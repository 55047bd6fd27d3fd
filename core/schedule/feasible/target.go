// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"strings"

	"github.com/drover-project/drover/core/model"
)

// Resolve returns the value of one side of a constraint on a node of the job's region. A
// string without interpolation is its own value. false means that the node has no such
// value.
func Resolve(target, region string, n *model.Node) (string, bool) {
	if !strings.HasPrefix(target, "${") || !strings.HasSuffix(target, "}") {
		return target, true
	}
	switch target[2 : len(target)-1] {
	case "node.unique.id":
		return n.ID, true
	case "node.unique.name":
		return n.Name, true
	}
	return resolve(target, region, &model.NodeTraits{
		Datacenter: n.Datacenter, NodePool: n.NodePool, NodeClass: n.NodeClass, Attributes: n.Attributes, Meta: n.Meta,
	})
}

// resolve is Resolve restricted to properties that nodes of a class share.
func resolve(target, region string, t *model.NodeTraits) (string, bool) {
	if !strings.HasPrefix(target, "${") || !strings.HasSuffix(target, "}") {
		return target, true
	}
	key := target[2 : len(target)-1]
	switch key {
	case "node.datacenter":
		return t.Datacenter, true
	case "node.class":
		return t.NodeClass, true
	case "node.pool":
		return t.NodePool, true
	case "node.region":
		return region, true
	}
	if k, ok := strings.CutPrefix(key, "attr."); ok {
		v, found := t.Attributes[k]
		return v, found
	}
	if k, ok := strings.CutPrefix(key, "meta."); ok {
		v, found := t.Meta[k]
		return v, found
	}
	return "", false
}

// Escapes reports whether the target can have different values on nodes of one
// computed class.
func Escapes(target string) bool {
	return strings.HasPrefix(target, "${node.unique.") ||
		strings.HasPrefix(target, "${attr.unique.") ||
		strings.HasPrefix(target, "${meta.unique.")
}
