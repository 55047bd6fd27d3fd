// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/plugin"
)

func TestAMessageThatIsTooLargeIsToldFromWhatAPluginHasTooLittleOf(t *testing.T) {
	answer := func(ctx context.Context, asked string) (*wrapperspb.StringValue, error) {
		switch asked {
		case "huge":
			return wrapperspb.String(strings.Repeat("x", plugin.MaxMessage+1)), nil
		case "full":
			return nil, status.Error(codes.ResourceExhausted, "the disk is full")
		case "full late":
			if err := grpc.SendHeader(ctx, nil); err != nil {
				return nil, err
			}
			return nil, status.Error(codes.ResourceExhausted, "the disk is full")
		}
		return wrapperspb.String("small"), nil
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "x.X", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "StartTask", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in wrapperspb.StringValue
			if err := decode(&in); err != nil {
				return nil, err
			}
			return answer(ctx, in.GetValue())
		},
	}}}, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	options := append(append(plugin.DialOptions(), process.KnownSizes()...), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(listener.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for asked, want := range map[string]string{
		"huge":                                   "for StartTask is larger than 16 MiB",
		strings.Repeat("x", plugin.MaxMessage+1): "for StartTask is larger than 16 MiB",
		"full":                                   "the disk is full",
		"full late":                              "the disk is full",
	} {
		err := conn.Invoke(t.Context(), "/x.X/StartTask", wrapperspb.String(asked), &wrapperspb.StringValue{})
		got := status.Convert(err).Message()
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(got, want) || strings.Contains(want, "full") && got != want {
			t.Errorf("%.10s: %v", asked, err)
		}
	}
	var out wrapperspb.StringValue
	if err := conn.Invoke(t.Context(), "/x.X/StartTask", wrapperspb.String("ok"), &out); err != nil || out.GetValue() != "small" {
		t.Errorf("%q, %v", out.GetValue(), err)
	}
}
