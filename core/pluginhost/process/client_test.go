// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process_test

import (
	"context"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/drover-project/drover/core/pluginhost/process"
)

func TestAConnectionThatIsForgottenBeforeItsFirstStreamIsClosedWithItsProcess(t *testing.T) {
	dials := &process.Dials{}
	forgotten := func() *grpc.ClientConn { // as go-plugin does when the process ends while it is greeted
		conn, err := grpc.NewClient("unix:"+filepath.Join(t.TempDir(), "gone"), grpc.WithTransportCredentials(insecure.NewCredentials()), dials.Option())
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := conn.NewStream(ended, &grpc.StreamDesc{}, "/plugin.GRPCStdio/StreamStdio"); err == nil {
			t.Fatal("a stream was opened to nobody")
		}
		return conn
	}
	before := forgotten()
	dials.Close()
	late := forgotten() // go-plugin connects once more to end the process
	for when, conn := range map[string]*grpc.ClientConn{"before": before, "after": late} {
		if s := conn.GetState(); s != connectivity.Shutdown {
			t.Errorf("the connection that was made %s the end is %s", when, s)
		}
	}
}
