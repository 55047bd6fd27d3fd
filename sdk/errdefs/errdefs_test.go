// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package errdefs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/drover-project/drover/sdk/errdefs"
)

var classes = []errdefs.Class{
	errdefs.NotFound, errdefs.InvalidArgument, errdefs.AlreadyExists, errdefs.FailedPrecondition,
	errdefs.Unavailable, errdefs.DeadlineExceeded, errdefs.PermissionDenied, errdefs.ResourceExhausted,
	errdefs.Conflict, errdefs.Unimplemented, errdefs.Aborted, errdefs.Canceled, errdefs.Internal,
}

func TestEveryClassSurvivesGRPCWithTextAndRetryable(t *testing.T) {
	for _, c := range classes {
		err := fmt.Errorf("outer: %w", errdefs.New(c, errors.New("cause")))
		back := errdefs.FromGRPC(errdefs.ToGRPC(err))
		if got := errdefs.ClassOf(back); got != c {
			t.Errorf("%s came back as %s", c, got)
		}
		if !errors.Is(back, c) {
			t.Errorf("errors.Is(%s) is false after the round trip", c)
		}
		if back.Error() != "outer: cause" {
			t.Errorf("%s: text %q", c, back.Error())
		}
		if _, marked := errdefs.RetryableMark(back); marked {
			t.Errorf("%s: gRPC added a mark that nobody set", c)
		}
		if errdefs.IsRetryable(back) != errdefs.IsRetryable(err) {
			t.Errorf("%s: retryable changed", c)
		}
	}
}

func TestAnExplicitRetryableMarkSurvivesGRPC(t *testing.T) {
	err := errdefs.WithRetryable(errdefs.Unavailablef("daemon says no"), false)
	back := errdefs.FromGRPC(errdefs.ToGRPC(err))
	if errdefs.IsRetryable(back) || !errdefs.IsUnavailable(back) {
		t.Fatalf("got %v retryable=%v", errdefs.ClassOf(back), errdefs.IsRetryable(back))
	}
}

func TestTheOutermostClassWins(t *testing.T) {
	err := errdefs.FailedPreconditionf("cannot start: %w", errdefs.NotFoundf("image"))
	if !errdefs.IsFailedPrecondition(err) || errdefs.IsNotFound(err) {
		t.Fatalf("class is %s", errdefs.ClassOf(err))
	}
}

func TestConstructorsKeepTheCause(t *testing.T) {
	err := errdefs.Unavailablef("read: %w", io.ErrUnexpectedEOF)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal("the cause is lost")
	}
}

func TestUnclassedErrorsGetAFittingClass(t *testing.T) {
	for want, err := range map[errdefs.Class]error{
		errdefs.DeadlineExceeded: fmt.Errorf("call: %w", context.DeadlineExceeded),
		errdefs.Canceled:         fmt.Errorf("call: %w", context.Canceled),
		errdefs.Internal:         io.EOF,
		"":                       nil,
	} {
		if got := errdefs.ClassOf(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestForeignStatusesMapByCode(t *testing.T) {
	err := errdefs.FromGRPC(status.Error(codes.Unavailable, "connection refused"))
	if !errdefs.IsUnavailable(err) || !errdefs.IsRetryable(err) || err.Error() != "connection refused" {
		t.Fatalf("got %s %v", errdefs.ClassOf(err), err)
	}
	plain := io.EOF
	if errdefs.FromGRPC(plain) != plain {
		t.Fatal("an error that is no status must pass unchanged")
	}
}

func TestNilStaysNil(t *testing.T) {
	if errdefs.ToGRPC(nil) != nil || errdefs.FromGRPC(nil) != nil || errdefs.New(errdefs.NotFound, nil) != nil || errdefs.WithRetryable(nil, true) != nil {
		t.Fatal("nil became an error")
	}
}

func TestATextThatGRPCCannotSendIsMadeFitForIt(t *testing.T) {
	for in, want := range map[string]string{
		"no file a\xff\xfeb":                                 "no file a?b",
		strings.Repeat("x", errdefs.MaxText):                 strings.Repeat("x", errdefs.MaxText),
		strings.Repeat("x", errdefs.MaxText+1):               strings.Repeat("x", errdefs.MaxText-3) + "...",
		strings.Repeat("x", errdefs.MaxText-4) + "\u00fc12":  strings.Repeat("x", errdefs.MaxText-4) + "\u00fc12",
		strings.Repeat("x", errdefs.MaxText-4) + "\u00fc123": strings.Repeat("x", errdefs.MaxText-4) + "?...",
	} {
		st, _ := status.FromError(errdefs.ToGRPC(errdefs.NotFoundf("%s", in)))
		if _, err := proto.Marshal(st.Proto()); err != nil {
			t.Errorf("%.100q cannot be sent: %v", in, err)
		}
		if st.Message() != want {
			t.Errorf("%.100q became %d bytes: %.100q", in, len(st.Message()), st.Message())
		}
		back := errdefs.FromGRPC(status.Error(codes.NotFound, in))
		if !errdefs.IsNotFound(back) || back.Error() != want {
			t.Errorf("%.100q of another side became %d bytes: %.100q", in, len(back.Error()), back)
		}
	}
}
