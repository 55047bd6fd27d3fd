// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Client implements Servers over a connection to one of several addresses.
type Client struct {
	conn     *grpc.ClientConn
	resolver *manual.Resolver

	mu         sync.Mutex
	configured []string
	known      []string // configured addresses, then those learned from servers
	current    string   // to which the newest connection was made
	via        string   // which of known led to current: maybe the name of a machine or service
	fixed      bool     // known never grows: addresses from servers are ignored
	sessions   map[*beats]context.CancelCauseFunc

	beats atomic.Pointer[beats] // nil unless a session takes heartbeats
}

var _ Servers = (*Client)(nil)

// The pauses between attempts to connect. They are short, because a node must
// reconnect well within a lease after a server was away.
const (
	dialPause    = 100 * time.Millisecond
	dialPauseMax = time.Second
	dialTimeout  = 5 * time.Second
)

// Dial returns a client for one address, "HOST:PORT": see DialAny.
func Dial(address string, config *tls.Config) (*Client, error) {
	return DialAny([]string{address}, config)
}

// DialAny returns a client for several addresses, each "HOST:PORT" or the name of a service
// (see core/srvname). It connects at the first request to the first address that answers,
// and reconnects whenever the connection is lost. It tries servers learned from leases after the given ones. A nil
// config means no TLS.
func DialAny(addresses []string, config *tls.Config) (*Client, error) {
	return dial(addresses, config, grpc.WithIdleTimeout(0)) // keep the connection open
}

// dial is DialAny with more options.
func dial(addresses []string, config *tls.Config, more ...grpc.DialOption) (*Client, error) {
	if err := validAddresses(addresses); err != nil {
		return nil, err
	}
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	c := &Client{resolver: manual.NewBuilderWithScheme("drover"), configured: addresses, known: addresses}
	c.resolver.InitialState(resolver.State{Addresses: endpoints(addresses)})
	pause := backoff.DefaultConfig
	pause.BaseDelay, pause.MaxDelay = dialPause, dialPauseMax
	var err error
	c.conn, err = grpc.NewClient("drover:///servers", append([]grpc.DialOption{
		grpc.WithResolvers(c.resolver),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(c.connect),
		grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodec(newWireCodec()),
			grpc.MaxCallRecvMsgSize(largestMessage),
			grpc.MaxCallSendMsgSize(largestMessage),
		),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: dialTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveEvery, Timeout: aliveWithin, PermitWithoutStream: true}),
	}, more...)...)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("the server addresses %s cannot be used; give HOST:PORT: %w", joined(addresses), err)
	}
	return c, nil
}

func joined(addresses []string) string { return strings.Join(addresses, ", ") }

func endpoints(addresses []string) []resolver.Address {
	out := make([]resolver.Address, len(addresses))
	for i, a := range addresses {
		out[i].Addr = a
	}
	return out
}

// Known returns the addresses of all known servers.
func (c *Client) Known() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.known)
}

// learn adds the servers in a lease.
func (c *Client) learn(told []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fixed || len(told) == 0 {
		return
	}
	known := merge(c.known, c.configured, told, isLoopback(c.current))
	if !slices.Equal(known, c.known) {
		c.use(known)
	}
}

// Close closes the connection and ends everything on it.
func (c *Client) Close() error { return c.conn.Close() }

// ask makes one call as the node id.
func (c *Client) ask(ctx context.Context, id Identity, method string, request, reply any) error {
	if err := c.conn.Invoke(withIdentity(ctx, id), path(method), request, reply); err != nil {
		return fmt.Errorf("ask the servers at %s: %w", joined(c.Known()), errdefs.FromGRPC(err))
	}
	return nil
}

// Register implements Servers.
func (c *Client) Register(ctx context.Context, node *model.Node) (lease Lease, err error) {
	if err = c.ask(ctx, Identity{NodeID: node.ID, SecretID: node.SecretID}, methodRegister, node, &lease); err == nil {
		c.learn(lease.Servers)
	}
	return lease, err
}

// Change implements Servers.
func (c *Client) Change(ctx context.Context, change *model.NodeChange) (lease Lease, err error) {
	if err = c.ask(ctx, Identity{NodeID: change.Node.ID, SecretID: change.Node.SecretID}, methodChange, change, &lease); err == nil {
		c.learn(lease.Servers)
	}
	return lease, err
}

// Beat implements Servers.
func (c *Client) Beat(ctx context.Context, id Identity) (lease Lease, err error) {
	lease, sent, err := c.beats.Load().beat(ctx, id)
	if sent {
		if err == nil {
			c.learn(lease.Servers)
		}
		return lease, err
	}
	if err = c.ask(ctx, id, methodBeat, &id, &lease); err == nil {
		c.learn(lease.Servers)
	}
	return lease, err
}

// Away implements Servers.
func (c *Client) Away(ctx context.Context, id Identity) error {
	return c.ask(ctx, id, methodAway, &id, &struct{}{})
}

// UpdateAllocs implements Servers.
func (c *Client) UpdateAllocs(ctx context.Context, id Identity, reports []*model.AllocReport) (answer UpdateAnswer, err error) {
	err = c.ask(ctx, id, methodUpdateAllocs, &updateMessage{ID: id, Reports: reports}, &answer)
	return answer, err
}

// FetchAllocs implements Servers.
func (c *Client) FetchAllocs(ctx context.Context, id Identity, allocIDs []string) ([]*model.Allocation, error) {
	var reply allocsMessage
	if err := c.ask(ctx, id, methodFetchAllocs, &fetchMessage{ID: id, AllocIDs: allocIDs}, &reply); err != nil {
		return nil, err
	}
	return reply.unpack()
}

func (c *Client) stream(ctx context.Context, method string) (grpc.ClientStream, error) {
	desc := grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true}
	return c.conn.NewStream(ctx, &desc, path(method))
}

// Attach implements Servers.
func (c *Client) Attach(ctx context.Context, id Identity, node Node, push func(*Assignments) error) error {
	ctx, cancel := context.WithCancelCause(withIdentity(ctx, id))
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel(nil)
	session, err := c.stream(ctx, methodAttach)
	if err != nil {
		return brokenSession(err)
	}
	if err := session.SendMsg(&id); err != nil {
		return brokenSession(recvError(session, err))
	}
	hearts := &beats{id: id, stream: session, ended: make(chan struct{}), waiting: map[uint64]chan *beatAnswer{}}
	defer close(hearts.ended)
	defer c.beats.CompareAndSwap(hearts, nil)
	defer c.holds(hearts, cancel)()
	for {
		var m toNode
		if err := session.RecvMsg(&m); err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errReplaced) {
				return cause
			}
			return brokenSession(err)
		}
		if m.End != nil {
			return fmt.Errorf("the session with the servers ended: %w", m.End.err())
		}
		if m.Beats {
			c.beats.Store(hearts)
		}
		if m.Beat != nil {
			hearts.answered(m.Beat)
		}
		if m.CallID != "" {
			calls.Go(func() { c.answer(ctx, node, &m) })
			continue
		}
		if m.Assignments == nil {
			continue
		}
		if m.Fresh != nil {
			if m.Assignments.Fresh, err = m.Fresh.unpack(); err != nil {
				return err
			}
		}
		if err := push(m.Assignments); err != nil {
			return err
		}
	}
}

// recvError returns why a stream ended: a failed send returns only io.EOF.
func recvError(stream grpc.ClientStream, sent error) error {
	if err := stream.RecvMsg(&toNode{}); err != nil {
		return err
	}
	return sent
}

func brokenSession(err error) error {
	return fmt.Errorf("the session with the servers ended: %w", errdefs.FromGRPC(err))
}

// answer executes one call on a stream of its own. If the stream breaks, nobody waits
// for the answer, so errors of sending are dropped.
func (c *Client) answer(ctx context.Context, node Node, m *toNode) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	stream, err := c.stream(ctx, methodAnswer)
	if err != nil {
		return
	}
	if err := stream.SendMsg(&answerMessage{CallID: m.CallID}); err != nil {
		return
	}
	var in chan []byte
	if m.HasInput {
		in = make(chan []byte)
	}
	reading.Go(func() { readInput(ctx, cancel, stream, in) })
	err = node.Call(ctx, m.Call, in, func(data []byte) error {
		return stream.SendMsg(&answerMessage{Data: data})
	})
	if stream.SendMsg(endOf(err)) == nil && stream.CloseSend() == nil {
		<-ctx.Done() // the server has read everything when it closes the stream
	}
}

// readInput passes input on until the stream ends. in may be nil. If the stream
// breaks, nobody waits for the call any more: it cancels the call before it closes the
// input, so that truncated input is not taken as complete.
func readInput(ctx context.Context, cancel context.CancelFunc, stream interface{ RecvMsg(any) error }, in chan<- []byte) {
	open := in != nil
	defer func() {
		cancel()
		if open {
			close(in)
		}
	}()
	for {
		var m inputMessage
		if err := stream.RecvMsg(&m); err != nil {
			return
		}
		switch {
		case !open:
		case m.End:
			close(in)
			open = false
		default:
			select {
			case in <- m.Data:
			case <-ctx.Done():
				return
			}
		}
	}
}
