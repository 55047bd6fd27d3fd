// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package conformance

import (
	"context"
	"reflect"
	"strings"

	"github.com/drover-project/drover/sdk/schema"
)

// CheckInfo checks what the Info of every kind of plugin has: a name and the schema of its
// config. again is what Info answered the second time.
func CheckInfo(t *T, name string, config schema.Schema, info, again any) {
	if name == "" || strings.ContainsAny(name, " /") {
		t.Errorf("the name %q cannot be that of a block of a configuration", name)
	}
	if err := config.Check(); err != nil {
		t.Errorf("the config schema: %v", err)
	}
	if !reflect.DeepEqual(again, info) {
		t.Errorf("Info answers differently the second time: %+v", again)
	}
}

// FirstFingerprint returns the first fingerprint of a new stream, which open opens.
func FirstFingerprint[F any](t *T, open func(context.Context) (<-chan F, error)) F {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := open(ctx)
	if err != nil {
		t.Fatalf("Fingerprint: %v", err)
	}
	f, ok := Receive(t, prints, "the first fingerprint")
	if !ok {
		t.Fatalf("the stream of fingerprints ended at once")
	}
	return f
}

// CheckFingerprints checks a stream of fingerprints, which open opens: it begins at once, does
// not repeat a fingerprint (unless mayRepeat is set), and ends with its context and not before.
func CheckFingerprints[F any](t *T, open func(context.Context) (<-chan F, error), mayRepeat bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := open(ctx)
	if err != nil {
		t.Fatalf("Fingerprint: %v", err)
	}
	last, ok := Receive(t, prints, "the first fingerprint")
	if !ok {
		t.Fatalf("the stream ended before the first fingerprint")
	}
	GoesOn(t, prints, "the fingerprints", func(f F) {
		if reflect.DeepEqual(f, last) && !mayRepeat {
			t.Errorf("a fingerprint came again though nothing has changed")
		}
		last = f
	})
	cancel()
	Ended(t, prints, "the fingerprints")
}
