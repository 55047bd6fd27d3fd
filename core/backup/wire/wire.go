// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package wire is the protocol between core/backup and the program drover-s3: one Request
// as JSON on standard input, one Answer as JSON on standard output. The program is a
// separate one so that the agent links no client of a cloud. Only these two import it.
package wire

// The things that can be asked for.
const (
	Put    = "put"    // stores File under Name and reads it again
	List   = "list"   // lists the objects below the key prefix whose names begin with Name
	Delete = "delete" // removes Name; it is no error if it does not exist
)

// Request asks for one thing.
type Request struct {
	Op     string
	Bucket Bucket
	Name   string
	File   string `json:",omitempty"` // path of the file to store
}

// Bucket is a bucket of an S3-compatible store, and how to reach it.
type Bucket struct {
	// Endpoint is HOST[:PORT] or a URL; "" means AWS. Without a scheme it is https.
	Endpoint string `json:",omitempty"`
	Region   string `json:",omitempty"`
	Name     string
	// KeyPrefix and a slash come before every name; "" means neither.
	KeyPrefix string `json:",omitempty"`
	// AccessKey and SecretKey are the credentials. Without them they come from the
	// environment (AWS_ACCESS_KEY_ID), ~/.aws/credentials or the machine's role.
	AccessKey string `json:",omitempty"`
	SecretKey string `json:",omitempty"`
	// PathStyle names the bucket in the path and not in the host name.
	PathStyle bool `json:",omitempty"`
	// Encrypt lets the store encrypt objects, with KMSKey if it is not empty.
	Encrypt bool   `json:",omitempty"`
	KMSKey  string `json:",omitempty"`
}

// Object is a stored object. Name does not contain the key prefix.
type Object struct {
	Name string
	Size int64
}

// Answer is the answer to a Request. Error is empty if all went well.
type Answer struct {
	Error   string   `json:",omitempty"`
	Objects []Object `json:",omitempty"`
	// Sum is the SHA-256, in hex, of the object as it was read after it was stored.
	Sum string `json:",omitempty"`
}
