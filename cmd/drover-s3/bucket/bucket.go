// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package bucket stores, lists and removes objects in a bucket of an S3-compatible store.
// Only cmd/drover-s3 imports it.
package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/drover-project/drover/core/backup/wire"
)

// awsEndpoint is where a bucket is if no endpoint is given.
const awsEndpoint = "s3.amazonaws.com"

// Do does what a request asks for.
func Do(ctx context.Context, r wire.Request) wire.Answer {
	answer, err := do(ctx, r)
	if err != nil {
		return wire.Answer{Error: err.Error()}
	}
	return answer
}

func do(ctx context.Context, r wire.Request) (wire.Answer, error) {
	c, err := connect(r.Bucket)
	if err != nil {
		return wire.Answer{}, err
	}
	switch r.Op {
	case wire.Put:
		return put(ctx, c, r)
	case wire.List:
		return list(ctx, c, r)
	case wire.Delete:
		return wire.Answer{}, explain(r.Bucket, c.RemoveObject(ctx, r.Bucket.Name, key(r.Bucket, r.Name), minio.RemoveObjectOptions{}))
	}
	return wire.Answer{}, fmt.Errorf("this %s cannot do %q: it is of another release than the agent", "drover-s3", r.Op)
}

func connect(b wire.Bucket) (*minio.Client, error) {
	host, secure, err := endpoint(b.Endpoint)
	if err != nil {
		return nil, err
	}
	creds := credentials.NewStaticV4(b.AccessKey, b.SecretKey, "")
	if b.AccessKey == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	}
	style := minio.BucketLookupAuto
	if b.PathStyle {
		style = minio.BucketLookupPath
	}
	return minio.New(host, &minio.Options{Creds: creds, Secure: secure, Region: b.Region, BucketLookup: style})
}

// endpoint returns the host and port of an endpoint, and whether to use TLS.
func endpoint(text string) (host string, secure bool, err error) {
	if text == "" {
		return awsEndpoint, true, nil
	}
	if !strings.Contains(text, "://") {
		return text, true, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return "", false, fmt.Errorf("aws_storage.s3_endpoint %q is not an endpoint: give HOST:PORT, http://HOST:PORT or https://HOST:PORT", text)
	}
	return u.Host, u.Scheme == "https", nil
}

func key(b wire.Bucket, name string) string {
	if b.KeyPrefix == "" {
		return name
	}
	return strings.TrimSuffix(b.KeyPrefix, "/") + "/" + name
}

// put stores a file, in parts if it is large. An object exists only when all of it is there.
func put(ctx context.Context, c *minio.Client, r wire.Request) (wire.Answer, error) {
	// Without DisableContentSha256 parts are sent as signed chunks, which not every store
	// understands. What was stored is read again in any case.
	opts := minio.PutObjectOptions{ContentType: "application/x-gzip", DisableContentSha256: true, SendContentMd5: true}
	switch {
	case r.Bucket.KMSKey != "":
		sse, err := encrypt.NewSSEKMS(r.Bucket.KMSKey, nil)
		if err != nil {
			return wire.Answer{}, fmt.Errorf("aws_storage.s3_kms_key: %w", err)
		}
		opts.ServerSideEncryption = sse
	case r.Bucket.Encrypt:
		opts.ServerSideEncryption = encrypt.NewSSE()
	}
	at := key(r.Bucket, r.Name)
	if _, err := c.FPutObject(ctx, r.Bucket.Name, at, r.File, opts); err != nil {
		return wire.Answer{}, explain(r.Bucket, err)
	}
	sum, err := sumOf(ctx, c, r.Bucket.Name, at)
	if err != nil {
		// What nobody can read must not count as the newest snapshot. ctx may have ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		err = fmt.Errorf("read what was stored: %w", explain(r.Bucket, err))
		if left := c.RemoveObject(ctx, r.Bucket.Name, at, minio.RemoveObjectOptions{}); left != nil {
			return wire.Answer{}, fmt.Errorf("%w; it stays in the store as %s: %w", err, at, left)
		}
		return wire.Answer{}, fmt.Errorf("%w; it was removed again", err)
	}
	return wire.Answer{Sum: sum}, nil
}

// removeLimit is the time limit for removing what was stored in vain.
const removeLimit = 30 * time.Second

// sumOf reads an object and returns its SHA-256.
func sumOf(ctx context.Context, c *minio.Client, bucket, at string) (string, error) {
	object, err := c.GetObject(ctx, bucket, at, minio.GetObjectOptions{})
	if err != nil {
		return "", err
	}
	defer object.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, object); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func list(ctx context.Context, c *minio.Client, r wire.Request) (out wire.Answer, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing if an error ends the loop
	above := key(r.Bucket, "")
	for o := range c.ListObjects(ctx, r.Bucket.Name, minio.ListObjectsOptions{Prefix: above + r.Name}) {
		if o.Err != nil {
			return wire.Answer{}, explain(r.Bucket, o.Err)
		}
		out.Objects = append(out.Objects, wire.Object{Name: strings.TrimPrefix(o.Key, above), Size: o.Size})
	}
	return out, nil
}

// explain adds to an answer of the store what the operator can do.
func explain(b wire.Bucket, err error) error {
	if err == nil {
		return nil
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Code {
	case "NoSuchBucket":
		return fmt.Errorf("there is no bucket %q (aws_storage.s3_bucket): make it first: %w", b.Name, err)
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return fmt.Errorf("the store refuses the credentials for the bucket %q: they need s3:ListBucket, s3:PutObject, s3:GetObject and s3:DeleteObject: %w", b.Name, err)
	}
	return err
}
