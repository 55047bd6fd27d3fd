// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package schema describes the configuration that a plugin accepts, so that the agent,
// the servers and the CLI can validate a config block before any plugin sees it. It
// owns the description, its hash, and validation and decoding against it. It does not
// know HCL: core/jobspec converts a block to map[string]any and maps the paths in
// errors back to lines. Plugins and core may import it.
package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Type is the type of one attribute.
type Type string

// The types. Values of type Any are passed through unchecked.
const (
	String Type = "string"
	Number Type = "number"
	Bool   Type = "bool"
	// Duration is a string such as "90s" or "1h30m" in the format of
	// time.ParseDuration.
	Duration   Type = "duration"
	ListString Type = "list(string)"
	ListNumber Type = "list(number)"
	MapString  Type = "map(string)"
	// ListMapString is a map that may be written in several blocks, such as labels { a
	// = 1 }.
	ListMapString Type = "list(map(string))"
	ListMapNumber Type = "list(map(number))"
	Any           Type = "any"
	// Block is a nested block that may occur once, BlockList one that may be repeated.
	Block     Type = "block"
	BlockList Type = "list(block)"
)

// Types lists all types.
var Types = []Type{
	String, Number, Bool, Duration, ListString, ListNumber, MapString, ListMapString, ListMapNumber, Any, Block, BlockList,
}

// Schema describes what one config block accepts. The zero value accepts only an empty
// block.
type Schema struct {
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Attribute is one name in a block. Block is set only for the types Block and
// BlockList. Default is a JSON value of the attribute's type that is used if the
// attribute is not set; a required attribute has none.
type Attribute struct {
	Name        string  `json:"name"`
	Type        Type    `json:"type"`
	Required    bool    `json:"required,omitempty"`
	Default     any     `json:"default,omitempty"`
	Description string  `json:"description,omitempty"`
	Block       *Schema `json:"block,omitempty"`
	// Sensitive keeps the value out of error texts, since errors are logged and shown
	// to others. For a block it applies to everything in the block.
	Sensitive bool `json:"sensitive,omitempty"`
	// OneOf lists the values that a String may have, besides the empty string, which
	// means unset; nil allows all values.
	OneOf []string `json:"one_of,omitempty"`
	// Range limits a Number, which then must be an integer; nil means no limit.
	Range *Range `json:"range,omitempty"`
}

// Range is the range from Min to Max, both inclusive.
type Range struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// Parse reads the JSON form in which a plugin publishes a schema. Empty input is the
// schema of an empty block, since plugins in other languages may leave it out.
func Parse(body []byte) (Schema, error) {
	var s Schema
	if len(body) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return s, errdefs.Internalf("decode the schema; the plugin is defective: %w", err)
	}
	return s, nil
}

// Hash returns a hash that is equal for equal schemas.
func (s *Schema) Hash() string {
	body, err := json.Marshal(s)
	if err != nil {
		// Only a Default that JSON cannot express causes this error; Check refuses such
		// schemas.
		body = []byte(fmt.Sprintf("%#v", s))
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

// attribute returns the attribute called name, or nil.
func (s *Schema) attribute(name string) *Attribute {
	for i := range s.Attributes {
		if s.Attributes[i].Name == name {
			return &s.Attributes[i]
		}
	}
	return nil
}
