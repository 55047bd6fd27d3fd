// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net/url"
	"slices"
)

// identityAlgorithms are the values of identity_algorithm.
var identityAlgorithms = []string{"EdDSA", "RS256"}

// IdentitySigning returns the algorithm that signs tokens of tasks. Many of the services
// that verify tokens by OpenID Connect read RS256 only, so it is the default if there is an
// issuer.
func (s *Server) IdentitySigning() string {
	switch {
	case s.IdentityAlgorithm != "":
		return s.IdentityAlgorithm
	case s.OIDCIssuer != "":
		return "RS256"
	}
	return "EdDSA"
}

func (s *Server) identityProblems() (out []string) {
	if s.IdentityAlgorithm != "" && !slices.Contains(identityAlgorithms, s.IdentityAlgorithm) {
		out = append(out, fmt.Sprintf("server.identity_algorithm %q is none of %q", s.IdentityAlgorithm, identityAlgorithms))
	}
	if s.OIDCIssuer == "" {
		return out
	}
	u, err := url.Parse(s.OIDCIssuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		out = append(out, fmt.Sprintf("server.oidc_issuer %q is not the URL of this API for others, such as \"https://nomad.example.com\"", s.OIDCIssuer))
	}
	return out
}
