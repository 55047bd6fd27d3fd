// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"encoding/pem"
	"strings"
	"testing"
	"time"
)

func TestTheHandshakeHasTheCertificate(t *testing.T) {
	for line, want := range map[string]string{
		"1|2|unix|/run/p.sock|grpc|\n":      "1|2|unix|/run/p.sock|grpc|AQID\n",
		"1|2|unix|/run/p.sock|grpc||true\n": "1|2|unix|/run/p.sock|grpc|AQID|true\n",
		"1|2|unix|/run/p.sock|grpc|CERT\n":  "",
		"1|2|unix|/run/p.sock|grpc\n":       "",
		"no end":                            "",
	} {
		var out strings.Builder
		err := completeLine(&out, strings.NewReader(line), []byte{1, 2, 3})
		if out.String() != want || (err == nil) != (want != "") {
			t.Errorf("%q became %q, %v", line, out.String(), err)
		}
	}
}

func TestAPluginIsSecuredIfItsHostIs(t *testing.T) {
	t.Setenv(clientCertEnv, "")
	if c, err := secured(); c != nil || err != nil {
		t.Errorf("without a certificate of the host: %v, %v", c, err)
	}
	t.Setenv(clientCertEnv, "no certificate")
	if _, err := secured(); err == nil {
		t.Error("nonsense is taken for a certificate")
	}
	host, err := newCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(clientCertEnv, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: host.Certificate[0]})))
	c, err := secured()
	if err != nil || len(c.Certificates) != 1 || c.ClientCAs == nil {
		t.Errorf("%v, %v", c, err)
	}
}
