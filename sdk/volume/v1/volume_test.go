// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	pb "github.com/drover-project/drover/sdk/internal/pb/volume/v1"

	volume "github.com/drover-project/drover/sdk/volume/v1"
)

func TestTheWireFormHasTheMethodsOfTheInterface(t *testing.T) {
	var wire, contract []string
	for _, m := range pb.Volume_ServiceDesc.Methods {
		wire = append(wire, m.MethodName)
	}
	for _, s := range pb.Volume_ServiceDesc.Streams {
		wire = append(wire, s.StreamName)
	}
	of := reflect.TypeFor[volume.Volume]()
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		if name == "Info" {
			name = "Plugins" // which carries the Info of all
		}
		contract = append(contract, name)
	}
	slices.Sort(wire)
	slices.Sort(contract)
	if !slices.Equal(wire, contract) {
		t.Errorf("the wire form has %q\nand the interface %q", wire, contract)
	}
}

func TestSecretsDoNotShow(t *testing.T) {
	r := volume.CreateRequest{Name: "v", Secrets: volume.Secrets{"key": "hush"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, r); len(got) == 0 || strings.Contains(got, "hush") {
			t.Errorf("printed with %s: %s", format, got)
		}
	}
}
