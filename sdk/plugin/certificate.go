// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// clientCertEnv is the variable with the certificate of a host that calls over TLS.
const clientCertEnv = "PLUGIN_CLIENT_CERT"

// serverName is the name in the certificates of both sides, as in go-plugin's.
const serverName = "localhost"

// secured gives a plugin a certificate that its host trusts, as go-plugin does, but with a
// key on the curve P-256. The key that go-plugin makes takes 10 ms of processor time at each
// start, and half a megabyte of tables in the host and in each plugin. It returns nil if the
// host does not call over TLS.
func secured() (*tls.Config, error) {
	host := os.Getenv(clientCertEnv)
	if host == "" {
		return nil, nil
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(host)) {
		return nil, fmt.Errorf("the variable %s has no certificate of the host", clientCertEnv)
	}
	cert, err := newCertificate(time.Now())
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the plugin: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{*cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted, RootCAs: trusted,
		MinVersion: tls.VersionTLS12, ServerName: serverName,
	}, nil
}

// credentialsOf returns how connections of hosts are received, by TLS if there is a
// configuration for it.
func credentialsOf(secure *tls.Config) credentials.TransportCredentials {
	if secure == nil {
		return directly{insecure.NewCredentials()}
	}
	return directly{credentials.NewTLS(secure)}
}

// directly receives connections that are Direct.
type directly struct {
	credentials.TransportCredentials
}

func (d directly) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return d.TransportCredentials.ServerHandshake(Direct(conn))
}

// certLife is far longer than a process lives.
const certLife = 30 * 365 * 24 * time.Hour

func newCertificate(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: serverName, Organization: []string{"Drover"}}, DNSNames: []string{serverName}, SerialNumber: serial,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// announce completes the line by which go-plugin tells the host where the plugin listens:
// go-plugin leaves out a certificate that it has not made. It takes the place of os.Stdout
// until that line is written, when go-plugin replaces os.Stdout as well.
func announce(config *tls.Config) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("prepare the handshake with the host: %w", err)
	}
	stdout := os.Stdout
	os.Stdout = w
	go func() {
		defer r.Close()
		if err := completeLine(stdout, r, config.Certificates[0].Certificate[0]); err != nil {
			fmt.Fprintln(os.Stderr, "the handshake with the host failed:", err) // the host says that there was none
		}
	}()
	return nil
}

// certificateField is the position of the certificate in the line of the handshake.
const certificateField = 5

// completeLine copies a line from r, with the certificate added.
func completeLine(out io.Writer, r io.Reader, der []byte) error {
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return err
	}
	parts := strings.Split(strings.TrimSuffix(line, "\n"), "|")
	if len(parts) <= certificateField || parts[certificateField] != "" {
		return errors.New("go-plugin wrote another line than expected")
	}
	parts[certificateField] = base64.RawStdEncoding.EncodeToString(der)
	_, err = io.WriteString(out, strings.Join(parts, "|")+"\n")
	return err
}
