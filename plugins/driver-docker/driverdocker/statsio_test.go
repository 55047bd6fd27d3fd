// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"encoding/json"
	"reflect"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

func TestInputAndOutputOfAContainerIsAddedUpAsFarAsTheDaemonReportsIt(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want driver.IOStats
	}{
		"cgroup v1": {
			`{"blkio_stats": {"io_service_bytes_recursive": [{"op": "Read", "value": 5}, {"op": "Write", "value": 7}, {"op": "Total", "value": 12}, {"op": "Read", "value": 1}],
			  "io_serviced_recursive": [{"op": "Read", "value": 2}, {"op": "Write", "value": 3}]}}`,
			driver.IOStats{ReadBytes: 6, WrittenBytes: 7, Reads: 2, Writes: 3, Measured: driver.IOMeasures},
		},
		"cgroup v2, without operations": {
			`{"blkio_stats": {"io_service_bytes_recursive": [{"op": "read", "value": 5}, {"op": "write", "value": 7}], "io_serviced_recursive": null}}`,
			driver.IOStats{ReadBytes: 5, WrittenBytes: 7, Measured: driver.IOMeasures[:2]},
		},
		"nothing": {`{"blkio_stats": {"io_service_bytes_recursive": null}}`, driver.IOStats{}},
		"windows": {
			`{"os_type": "windows", "storage_stats": {"read_count_normalized": 1, "read_size_bytes": 2, "write_count_normalized": 3, "write_size_bytes": 4}}`,
			driver.IOStats{Reads: 1, ReadBytes: 2, Writes: 3, WrittenBytes: 4, Measured: driver.IOMeasures},
		},
	} {
		var m measured
		if err := json.Unmarshal([]byte(c.body), &m); err != nil {
			t.Fatal(err)
		}
		got := m.io()
		if len(got.Measured) == 0 {
			got.Measured = nil
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
