// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format formats a job or agent file. It returns an error if the file does not parse.
func Format(src []byte, filename string) ([]byte, error) {
	if _, diags := parseBody(src, filename); diags.HasErrors() {
		return nil, &ParseError{diags, map[string][]byte{filename: src}}
	}
	return hclwrite.Format(src), nil
}
