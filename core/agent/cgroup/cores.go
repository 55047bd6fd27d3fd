// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCore is above the highest number that the kernel gives to a core.
const maxCore = 1 << 16

// format writes cores as the kernel reads them.
func format(cores []int) string {
	text := make([]string, len(cores))
	for i, c := range cores {
		text[i] = strconv.Itoa(c)
	}
	return strings.Join(text, ",")
}

// parse reads a list of cores such as 0-3,8.
func parse(list string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		if part == "" {
			continue
		}
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 0 || last < first || last > maxCore {
			return nil, fmt.Errorf("the list of cores %q cannot be read", list)
		}
		for c := first; c <= last; c++ {
			out = append(out, c)
		}
	}
	return out, nil
}
