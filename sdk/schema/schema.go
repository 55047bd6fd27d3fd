// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package schema describes the configuration that a plugin accepts, so that the
// agent, the server and the CLI can check a config block before any plugin runs
// it. It owns the description, its hash, and checking and decoding against it.
// It knows nothing of HCL: core/jobspec turns a block into map[string]any and
// maps the paths of our errors back to lines. Plugins and core may import it.
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
	// Duration is a string as "90s" or "1h30m", which time.ParseDuration reads.
	Duration   Type = "duration"
	ListString Type = "list(string)"
	ListNumber Type = "list(number)"
	MapString  Type = "map(string)"
	// ListMapString is a map that may be written in several blocks, as labels { a = 1 }.
	ListMapString Type = "list(map(string))"
	ListMapNumber Type = "list(map(number))"
	Any           Type = "any"
	// Block is a nested block that may be given once, and BlockList one that may repeat.
	Block     Type = "block"
	BlockList Type = "list(block)"
)

// Types are all of them.
var Types = []Type{
	String, Number, Bool, Duration, ListString, ListNumber, MapString, ListMapString, ListMapNumber, Any, Block, BlockList,
}

// Schema is what one config block accepts. The zero value accepts an empty block only.
type Schema struct {
	Attributes []Attribute `json:"attributes,omitempty"`
}

// Attribute is one name in a block. Block is set for the types Block and
// BlockList only. Default is a JSON value of the attribute's type and is used
// where the attribute is not set; a required attribute has none.
type Attribute struct {
	Name        string  `json:"name"`
	Type        Type    `json:"type"`
	Required    bool    `json:"required,omitempty"`
	Default     any     `json:"default,omitempty"`
	Description string  `json:"description,omitempty"`
	Block       *Schema `json:"block,omitempty"`
	// Sensitive: what is wrong with its value is told without the value, since
	// errors are logged and shown to others. Of a block it is for all that it holds.
	Sensitive bool `json:"sensitive,omitempty"`
	// OneOf are the values that a String may have beside the empty one, which stands
	// for none; nil allows all.
	OneOf []string `json:"one_of,omitempty"`
	// Range bounds a Number, which then is a whole one; nil does not.
	Range *Range `json:"range,omitempty"`
}

// Range is from Min to Max, both included.
type Range struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// Parse reads the JSON form in which a plugin publishes a schema. Nothing at all is
// the schema of an empty block: plugins in other languages may leave it out.
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

// Hash names the schema: equal schemas have equal hashes.
func (s *Schema) Hash() string {
	body, err := json.Marshal(s)
	if err != nil {
		// Only a Default that JSON cannot express comes here; Check refuses those.
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
