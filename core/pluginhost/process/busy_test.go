// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package process

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestABusyFileIsTriedAgainForAMoment(t *testing.T) {
	busy := fmt.Errorf("start it: %w", syscall.ETXTBSY)
	for name, c := range map[string]struct {
		errors []error
		tries  int
		fails  bool
	}{
		"works":            {[]error{nil}, 1, false},
		"busy twice":       {[]error{busy, busy, nil}, 3, false},
		"stays busy":       {[]error{busy, busy, busy, busy, busy, busy, busy}, busyTries, true},
		"another failure":  {[]error{errors.New("no")}, 1, true},
		"busy, then fails": {[]error{busy, errors.New("no")}, 2, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, tries := time.Now(), 0
			_, err := whileBusy(t.Context(), func() (*Process, error) {
				tries++
				return &Process{}, c.errors[tries-1]
			})
			if tries != c.tries || (err != nil) != c.fails {
				t.Errorf("%s: %d tries, %v", name, tries, err)
			}
			if took := time.Since(begin); took > 200*time.Millisecond {
				t.Errorf("%s: took %s", name, took)
			}
		})
	}
}
