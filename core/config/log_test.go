// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestLevelsOfTheLogThatThereAreNotAreRefusedBeforeTheStart(t *testing.T) {
	for level, good := range map[string]bool{"": true, "info": true, "WARN": true, " debug ": true, "off": true, "LOUD": false, "INFO,WARN": false} {
		c := config.DevDefaults()
		c.LogLevel = level
		if err := c.Finish(); good != (err == nil) || !good && !strings.Contains(err.Error(), "is not one of TRACE") {
			t.Errorf("%q: %v", level, err)
		}
	}
}
