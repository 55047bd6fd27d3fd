// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import "testing"

func TestAMachineThatLacksWhatAPluginNeedsIsCheckedLessAndLessOften(t *testing.T) {
	for checks, want := range map[int]int{0: 1, 1: 2, 2: 4, 3: 8, 4: restFactor, 5: restFactor, 1 << 20: restFactor} {
		if got := absentFactor(checks); int(got) != want {
			t.Errorf("after %d checks the next one waits %d intervals, want %d", checks, got, want)
		}
	}
}
