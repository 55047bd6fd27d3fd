// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networktest_test

import (
	"testing"

	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networktest"
	"github.com/drover-project/drover/sdk/network/v1/networktest/filenetwork"
)

func TestTheExampleKeepsTheContract(t *testing.T) {
	dir := t.TempDir()
	networktest.Run(t, networktest.Options{New: func(*testing.T) network.Network { return filenetwork.New("file", dir) }})
}
