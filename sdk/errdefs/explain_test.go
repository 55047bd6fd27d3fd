// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package errdefs_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-project/drover/sdk/errdefs"
)

func explained() error {
	err := errdefs.NotFoundf("there is no image %q", "web:9")
	err = errdefs.WithDetail(errdefs.WithDetail(err, "image", "web:9"), "registry", "r.example")
	err = errdefs.WithRetryAfter(errdefs.WithReason(err, "image_not_found"), 90*time.Second)
	return fmt.Errorf("start task: %w", err)
}

func TestWhatExplainsAnErrorSurvivesWrappingAndGRPC(t *testing.T) {
	want := map[string]string{"image": "web:9", "registry": "r.example"}
	for name, err := range map[string]error{
		"wrapped":     explained(),
		"another one": errdefs.FailedPreconditionf("twice: %w", explained()),
		"joined":      errors.Join(errors.New("other"), explained()),
		"gRPC":        errdefs.FromGRPC(errdefs.ToGRPC(explained())),
		"gRPC twice":  errdefs.FromGRPC(errdefs.ToGRPC(fmt.Errorf("node: %w", errdefs.FromGRPC(errdefs.ToGRPC(explained()))))),
	} {
		if r := errdefs.ReasonOf(err); r != "image_not_found" {
			t.Errorf("%s: reason %q", name, r)
		}
		if d := errdefs.DetailsOf(err); !maps.Equal(d, want) {
			t.Errorf("%s: details %v", name, d)
		}
		if d := errdefs.RetryAfter(err); d != 90*time.Second {
			t.Errorf("%s: retry after %s", name, d)
		}
	}
	if err := errdefs.FromGRPC(errdefs.ToGRPC(explained())); !errdefs.IsNotFound(err) || errdefs.IsRetryable(err) {
		t.Errorf("class %s, retryable %v", errdefs.ClassOf(err), errdefs.IsRetryable(err))
	}
}

func TestAnErrorWithoutExplanationHasNone(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), errdefs.NotFoundf("x"), errdefs.FromGRPC(errdefs.ToGRPC(errdefs.NotFoundf("x"))), errdefs.FromGRPC(status.Error(codes.NotFound, "x"))} {
		if errdefs.ReasonOf(err) != "" || errdefs.DetailsOf(err) != nil || errdefs.RetryAfter(err) != 0 {
			t.Errorf("%v is explained", err)
		}
	}
	if errdefs.WithReason(nil, "a") != nil || errdefs.WithDetail(nil, "a", "b") != nil || errdefs.WithRetryAfter(nil, 1) != nil {
		t.Error("nil became an error")
	}
}

func TestTheOutermostExplanationCounts(t *testing.T) {
	err := errdefs.WithReason(errdefs.WithDetail(errors.New("x"), "a", "1"), "inner")
	err = fmt.Errorf("y: %w", errdefs.WithRetryAfter(err, time.Minute))
	err = errdefs.WithReason(errdefs.WithDetail(errdefs.WithRetryAfter(err, time.Hour), "a", "2"), "outer")
	if r, d, after := errdefs.ReasonOf(err), errdefs.DetailsOf(err), errdefs.RetryAfter(err); r != "outer" || d["a"] != "2" || after != time.Hour {
		t.Errorf("%s %v %s", r, d, after)
	}
	if errdefs.ReasonOf(errdefs.WithReason(err, "")) != "outer" || errdefs.RetryAfter(errdefs.WithRetryAfter(err, -1)) != time.Hour {
		t.Error("an empty one hides the one within")
	}
}

func TestAHintThatIsNoTimeIsIgnored(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, 25 * time.Hour, 1<<63 - 1} {
		if got := errdefs.RetryAfter(errdefs.WithRetryAfter(errors.New("x"), d)); got != 0 {
			t.Errorf("%s is taken as %s", d, got)
		}
		if got := errdefs.RetryAfter(foreign(t, nil, durationpb.New(d))); got != 0 {
			t.Errorf("%s of a plugin is taken as %s", d, got)
		}
	}
	for _, d := range []*durationpb.Duration{nil, {Seconds: 1 << 62}, {Seconds: 1, Nanos: -5}} {
		if got := errdefs.RetryAfter(foreign(t, nil, d)); got != 0 {
			t.Errorf("%v of a plugin is taken as %s", d, got)
		}
	}
}

// foreign is an error as a plugin in another language sends it.
func foreign(t *testing.T, meta map[string]string, after *durationpb.Duration) error {
	t.Helper()
	st, err := status.New(codes.Unavailable, "no").WithDetails(&errdetails.ErrorInfo{Domain: "drover", Metadata: meta}, &errdetails.RetryInfo{RetryDelay: after})
	if err != nil {
		t.Fatal(err)
	}
	return errdefs.FromGRPC(st.Err())
}

func TestWhatAPluginSendsIsCleanedAndCut(t *testing.T) {
	meta := map[string]string{"reason": "Image-Not\x1b[31mFound" + strings.Repeat("x", 500), "detail.": "no name", "other": "x"}
	for i := range 100 {
		meta[fmt.Sprintf("detail.n%03d\n", i)] = "a\nb\x1b[31m\u202e" + strings.Repeat("ü", 500)
	}
	for name, err := range map[string]error{"from gRPC": foreign(t, meta, nil), "made here": func() error {
		err := errdefs.WithReason(errors.New("x"), meta["reason"])
		for i := 99; i >= 0; i-- {
			err = errdefs.WithDetail(err, fmt.Sprintf("n%03d\n", i), meta["detail.n000\n"]+"\xff")
		}
		return err
	}()} {
		if r := errdefs.ReasonOf(err); !strings.HasPrefix(r, "image_not__31mfoundxx") || len(r) != errdefs.MaxReason {
			t.Errorf("%s: reason %q", name, r)
		}
		details := errdefs.DetailsOf(err)
		if len(details) != errdefs.MaxDetails || details["n000_"] == "" || details["n015_"] == "" {
			t.Errorf("%s: %d details: %v", name, len(details), details)
		}
		for k, v := range details {
			if len(v) > errdefs.MaxDetailValue || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) || !strings.HasPrefix(v, "a b [31m") {
				t.Errorf("%s: %q = %q", name, k, v)
			}
		}
	}
}
