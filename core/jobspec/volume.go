// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	hcljson "github.com/hashicorp/hcl/v2/json"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Types of volumes in specifications.
const (
	VolumeHost = "host"
	VolumeCSI  = "csi"
)

type volumeType struct {
	Type string   `hcl:"type"`
	Rest hcl.Body `hcl:",remain"`
}

// hostVolumeFile is the specification of a host volume, in HCL or JSON.
type hostVolumeFile struct {
	ID           string             `hcl:"id,optional"`
	Namespace    string             `hcl:"namespace,optional"`
	Name         string             `hcl:"name,optional"`
	PluginID     string             `hcl:"plugin_id,optional"`
	NodePool     string             `hcl:"node_pool,optional"`
	NodeID       string             `hcl:"node_id,optional"`
	HostPath     string             `hcl:"host_path,optional"`
	Capacity     *string            `hcl:"capacity"`
	CapacityMin  *string            `hcl:"capacity_min"`
	CapacityMax  *string            `hcl:"capacity_max"`
	Constraints  []volumeConstraint `hcl:"constraint,block"`
	Capabilities []volumeCapability `hcl:"capability,block"`
	Parameters   *metaBlock         `hcl:"parameters,block"`
}

// volumeConstraint has the short forms of constraints beside the long one.
type volumeConstraint struct {
	Attribute      string  `hcl:"attribute,optional"`
	Operator       string  `hcl:"operator,optional"`
	Value          string  `hcl:"value,optional"`
	Version        *string `hcl:"version"`
	Semver         *string `hcl:"semver"`
	Regexp         *string `hcl:"regexp"`
	SetContains    *string `hcl:"set_contains"`
	SetContainsAll *string `hcl:"set_contains_all"`
	SetContainsAny *string `hcl:"set_contains_any"`
}

func (c *volumeConstraint) constraint() *model.Constraint {
	out := &model.Constraint{LTarget: c.Attribute, RTarget: c.Value, Operand: c.Operator}
	for _, short := range []struct {
		operand string
		value   *string
	}{
		{model.ConstraintVersion, c.Version}, {model.ConstraintSemver, c.Semver}, {model.ConstraintRegex, c.Regexp},
		{model.ConstraintSetContains, c.SetContains}, {model.ConstraintSetContainsAll, c.SetContainsAll}, {model.ConstraintSetContainsAny, c.SetContainsAny},
	} {
		if short.value != nil {
			out.Operand, out.RTarget = short.operand, *short.value
		}
	}
	if out.Operand == "" {
		out.Operand = "="
	}
	return out
}

// ParseHostVolume parses the specification of a host volume in HCL, or in JSON with the same
// names. Its errors are those of ParseHCL.
func ParseHostVolume(src []byte, filename string) (*model.HostVolume, error) {
	kind, body, back, err := volumeSpec(src, filename)
	if err != nil {
		return nil, err
	}
	if kind != VolumeHost {
		return nil, errdefs.InvalidArgumentf("%s: the specification is of a volume of type %q", filename, kind)
	}
	var file hostVolumeFile
	diags := gohcl.DecodeBody(body, nil, &file)
	v := &model.HostVolume{
		ID: file.ID, Namespace: file.Namespace, Name: file.Name, PluginID: file.PluginID, NodePool: file.NodePool, NodeID: file.NodeID, HostPath: file.HostPath,
	}
	params, more := file.Parameters.read()
	v.Parameters, diags = params, append(diags, more...)
	for i := range file.Constraints {
		v.Constraints = append(v.Constraints, file.Constraints[i].constraint())
	}
	for _, c := range file.Capabilities {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &model.VolumeCapability{AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode})
	}
	diags = append(diags, readSizes(body, filename, []volumeSize{
		{"capacity", file.Capacity, &v.CapacityBytes}, {"capacity_min", file.CapacityMin, &v.RequestedCapacityMinBytes}, {"capacity_max", file.CapacityMax, &v.RequestedCapacityMaxBytes},
	})...)
	return v, parseError(back(diags), src, filename)
}

// volumeBody parses HCL or, if the file begins with a brace, JSON. Its second value puts
// problems with the body to where they are in src.
func volumeBody(src []byte, filename string) (hcl.Body, func(hcl.Diagnostics) hcl.Diagnostics, hcl.Diagnostics) {
	same := func(d hcl.Diagnostics) hcl.Diagnostics { return d }
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		if len(src) > maxFileBytes {
			return nil, same, checkBounds(src, filename)
		}
		file, diags := hcljson.Parse(src, filename)
		if diags.HasErrors() {
			return nil, same, diags
		}
		return file.Body, same, nil
	}
	body, read, back, diags := parseSpec(src, filename, volumeShape)
	if !diags.HasErrors() {
		diags = back(keepRuntimeVariables(body, read))
	}
	return body, back, diags
}

// rangeOf returns where a file sets a key.
func rangeOf(body hcl.Body, key, filename string) *hcl.Range {
	content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: key}}})
	if content != nil && content.Attributes[key] != nil {
		return content.Attributes[key].Expr.Range().Ptr()
	}
	return startOf(filename).Ptr()
}
