// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

type fetchMessage struct {
	ID       Identity
	AllocIDs []string
}

// allocsMessage contains allocs and each of their jobs once: JobOf[i] is the index in Jobs of
// the job of Allocs[i], -1 if it has none.
type allocsMessage struct {
	Jobs   []jobMessage
	Allocs []*model.Allocation
	JobOf  []int
}

// jobMessage is a job, which is encoded like *model.Job. encoded is its encoding, if that is known.
type jobMessage struct {
	job     *model.Job
	encoded codec.Raw
}

// CodecEncodeSelf implements codec.Selfer.
func (m *jobMessage) CodecEncodeSelf(e *codec.Encoder) {
	if m.encoded != nil {
		e.MustEncode(m.encoded)
		return
	}
	e.MustEncode(m.job)
}

// CodecDecodeSelf implements codec.Selfer.
func (m *jobMessage) CodecDecodeSelf(d *codec.Decoder) { d.MustDecode(&m.job) }

// maxFresh is how many bytes of jobs go with one push of assignments. The node fetches allocs
// that are not sent along.
const maxFresh = 1 << 20

// maxEncoded is how many bytes encodedJobs keeps.
const maxEncoded = 1 << 20

// packAllocs returns a message with allocs.
func packAllocs(allocs []*model.Allocation) *allocsMessage {
	out := &allocsMessage{}
	places := map[*model.Job]int{}
	for _, a := range allocs {
		place := -1
		if a.Job != nil {
			var seen bool
			if place, seen = places[a.Job]; !seen {
				place = len(out.Jobs)
				places[a.Job] = place
				out.Jobs = append(out.Jobs, jobMessage{job: a.Job})
			}
			a = a.Copy()
			a.Job = nil
		}
		out.Allocs = append(out.Allocs, a)
		out.JobOf = append(out.JobOf, place)
	}
	return out
}

// encodedJobs keeps the encoding of jobs that were sent lately: the allocs of one job go to
// many nodes, and encoding it takes longer than all else about the message.
type encodedJobs struct {
	codec wireCodec

	mu    sync.Mutex
	known map[*model.Job]codec.Raw // stored jobs never change
	size  int
}

// fill adds the encodings of a message's jobs, and returns their length. A job that cannot
// be encoded has none: the whole message then fails with the cause.
func (j *encodedJobs) fill(m *allocsMessage) (bytes int) {
	for i := range m.Jobs {
		if m.Jobs[i].encoded == nil {
			m.Jobs[i].encoded = j.encode(m.Jobs[i].job)
		}
		bytes += len(m.Jobs[i].encoded)
	}
	return bytes
}

func (j *encodedJobs) encode(job *model.Job) codec.Raw {
	j.mu.Lock()
	defer j.mu.Unlock()
	if raw, ok := j.known[job]; ok {
		return raw
	}
	raw, err := j.codec.Marshal(job)
	if err != nil {
		return nil
	}
	if len(raw) > maxEncoded {
		return raw
	}
	if j.size += len(raw); j.size > maxEncoded || j.known == nil {
		j.known, j.size = map[*model.Job]codec.Raw{}, len(raw)
	}
	j.known[job] = raw
	return raw
}

func (m *allocsMessage) unpack() ([]*model.Allocation, error) {
	if len(m.JobOf) != len(m.Allocs) {
		return nil, errdefs.Internalf("the servers sent %d allocs and %d references to jobs; run the same version on servers and nodes", len(m.Allocs), len(m.JobOf))
	}
	for i, place := range m.JobOf {
		if place >= 0 && place < len(m.Jobs) {
			m.Allocs[i].Job = m.Jobs[place].job
		}
	}
	return m.Allocs, nil
}
