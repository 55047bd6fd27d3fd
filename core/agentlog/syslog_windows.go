// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agentlog

import (
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/errdefs"
)

func openSyslog(Options, hclog.Level) (*syslogSink, error) {
	return nil, errdefs.InvalidArgumentf("enable_syslog: Windows has no syslog; remove it, and set log_file")
}
