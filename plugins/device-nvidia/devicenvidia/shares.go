// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"strconv"
	"strings"

	device "github.com/drover-project/drover/sdk/device/v1"
)

// maxShares is the most tasks that can use a device in turns: each has its own context in
// the device's memory.
const maxShares = 64

// between separates the UUID of a device from the number of the share in the id of an
// instance, as in "GPU-6b0a::3". NVIDIA's device plugin for Kubernetes does the same.
const between = "::"

// shareID returns the id of a share. A device with one share is the share.
func shareID(id string, share, shares int) string {
	if shares == 1 {
		return id
	}
	return id + between + strconv.Itoa(share)
}

// shared returns the shares of devices: the first of each, the second of each, and so on.
func shared(all []device.Instance, shares int) []device.Instance {
	out := make([]device.Instance, 0, len(all)*shares)
	for n := range shares {
		for _, one := range all {
			one.ID = shareID(one.ID, n, shares)
			out = append(out, one)
		}
	}
	return out
}

// shareOf returns the UUID of the device of which an id names a share; false if there is no
// such share.
func shareOf(id string, shares int) (uuid string, ok bool) {
	uuid, number, cut := strings.Cut(id, between)
	if !cut {
		return id, shares == 1
	}
	n, err := strconv.Atoi(number)
	return uuid, err == nil && shares > 1 && n >= 0 && n < shares && strconv.Itoa(n) == number
}
