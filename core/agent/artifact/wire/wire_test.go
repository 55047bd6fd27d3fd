// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package wire_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestARequestArrivesAsItWasSent(t *testing.T) {
	sent := wire.Request{
		Source: "https://host/f", Mode: "dir", Headers: map[string]string{"A": strings.Repeat("b", 10000)}, Insecure: true, Staging: "/staging",
		Isolate: true, ExtraPaths: []string{"d:r:/srv"}, Limits: wire.Limits{HTTPReadTimeout: time.Second, UnpackMaxFiles: 3},
	}
	var b bytes.Buffer
	if err := wire.Write(&b, sent); err != nil {
		t.Fatal(err)
	}
	got, err := wire.ReadRequest(bufio.NewReader(&b))
	if err != nil || !reflect.DeepEqual(*got, sent) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAnErrorKeepsItsClassAndIsCutToItsBound(t *testing.T) {
	for _, c := range []struct{ sent, want errdefs.Class }{
		{errdefs.InvalidArgument, errdefs.InvalidArgument}, {errdefs.Unavailable, errdefs.Unavailable}, {errdefs.Internal, errdefs.Unavailable},
	} {
		err := wire.Failed(errdefs.New(c.sent, errors.New(strings.Repeat("x", 1<<20)))).Err()
		if errdefs.ClassOf(err) != c.want || len(err.Error()) > wire.MaxText+10 {
			t.Errorf("class %q: got %q with %d bytes", c.sent, errdefs.ClassOf(err), len(err.Error()))
		}
	}
	if err := (wire.Answer{Done: true}).Err(); err != nil {
		t.Errorf("an answer without an error: got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"Source":"http://x","Mode":"any","Staging":"/x"}`))
	f.Add([]byte(`{"Source":"http://x","Mode":"any","Staging":"/x/../y"}`))
	f.Add([]byte(`{"Source":"http://x","Mode":"file","Staging":"/x","Limits":{"HTTPMaxBytes":-1}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := wire.Decode(line)
		if err != nil {
			if !errdefs.IsInvalidArgument(err) {
				t.Errorf("an error of class %q", errdefs.ClassOf(err))
			}
			return
		}
		if r.Source == "" || !filepath.IsAbs(r.Staging) || strings.Contains(r.Staging, "/../") || r.Limits.HTTPMaxBytes < 0 {
			t.Errorf("a bad request was taken: %+v", r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Decode(again); err != nil {
			t.Errorf("it is refused when it is sent on: %v", err)
		}
	})
}
