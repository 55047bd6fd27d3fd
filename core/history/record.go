// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// kind is the first byte of the keys of one type of object.
type kind byte

const (
	deployments kind = 'd'
	evaluations kind = 'e'
)

// record is an object with the fields by which it is selected.
type record struct {
	kind          kind
	id            string
	namespace, on string // on is the id of the job
	object        any
	index         uint64 // of the log entry that removed it
}

// recordOf returns the record of a row that a change has removed from the state; false if it
// has not, or rows of its type are not kept.
func recordOf(c *state.Change) (record, bool) {
	if c.New != nil {
		return record{}, false
	}
	switch o := c.Old.(type) {
	case *model.Deployment:
		return record{deployments, o.ID, o.Namespace, o.JobID, o, c.Index}, true
	case *model.Evaluation:
		return record{evaluations, o.ID, o.Namespace, o.JobID, o, c.Index}, true
	}
	return record{}, false
}

// A value is: its form, the time of removal, namespace, job id, and the object as JSON,
// which is compressed in the form packed.
const (
	plain  = 1
	packed = 2
)

const (
	// packFrom is the size from which objects are compressed: those with the refusals of
	// many groups.
	packFrom = 4 << 10
	// largestObject limits what a damaged or hostile value may unpack to.
	largestObject = 16 << 20
)

// encode returns the value of a record. ResourceExhausted: it is too large for the store.
func (r record) encode(at time.Time) ([]byte, error) {
	body, err := json.Marshal(r.object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", r.id, err)
	}
	form := byte(plain)
	if len(body) >= packFrom {
		form = packed
		if body, err = pack(body); err != nil {
			return nil, fmt.Errorf("compress %s: %w", r.id, err)
		}
	}
	out := binary.BigEndian.AppendUint64([]byte{form}, uint64(at.UnixNano()))
	for _, s := range []string{r.namespace, r.on} {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	if out = append(out, body...); len(out) > durable.LargestValue {
		return nil, errdefs.ResourceExhaustedf("%s takes %d bytes, and an object of the history may take %d", r.id, len(out), durable.LargestValue)
	}
	return out, nil
}

func pack(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// stored is a value without its object decoded.
type stored struct {
	form          byte
	at            time.Time
	namespace, on string
	body          []byte
}

// parse reads the head of a value, which it does not copy.
func parse(value []byte) (s stored, ok bool) {
	if len(value) < 9 {
		return s, false
	}
	s.form, s.at = value[0], time.Unix(0, int64(binary.BigEndian.Uint64(value[1:9]))).UTC()
	rest := value[9:]
	for _, field := range []*string{&s.namespace, &s.on} {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) {
			return s, false
		}
		*field, rest = string(rest[used:used+int(n)]), rest[used+int(n):]
	}
	s.body = rest
	return s, s.form == plain || s.form == packed
}

// decode reads the object into out.
func (s stored) decode(out any) error {
	if s.form == plain {
		return json.Unmarshal(s.body, out)
	}
	body, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(s.body)), largestObject))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, out)
}
