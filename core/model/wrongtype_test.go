// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

type odd struct{ N int }

func (o *odd) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.N) }

type inner struct {
	Name  string
	Small int8
	Count *uint
	Share float64
	Raw   json.RawMessage
	Free  any
	Bytes []byte
	Wait  time.Duration
	At    time.Time
	Odd   odd
}

type Embedded struct{ Deep bool }

type outer struct {
	Embedded
	List  []*inner
	Map   map[string]*inner
	Meta  map[string]string
	Named string `json:"named,omitempty"`
}

func TestAValueOfAWrongTypeIsNamedByItsPath(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                                 "the document must be an object, not a list",
		`"x"`:                                "the document must be an object, not text",
		`{"List":{}}`:                        "List must be a list, not an object",
		`{"list":[{"Name":"a"},{"name":3}]}`: "list[1].name must be text, not 3",
		`{"List":[{"Small":"3"}]}`:           "List[0].Small must be a whole number, not text",
		`{"List":[{"Small":1.5}]}`:           "List[0].Small must be a whole number from -128 to 127, not 1.5",
		`{"List":[{"Small":300}]}`:           "List[0].Small must be a whole number from -128 to 127, not 300",
		`{"List":[{"Count":-1}]}`:            "List[0].Count must be a whole number of at least 0, not -1",
		`{"List":[{"Share":true}]}`:          "List[0].Share must be a number, not true",
		`{"List":[{"Bytes":"*"}]}`:           "List[0].Bytes must be text in base64",
		`{"List":[{"Wait":"5s"}]}`:           "List[0].Wait must be a whole number of nanoseconds, not text",
		`{"List":[{"At":"soon"}]}`:           `List[0].At must be a time such as "2026-01-02T15:04:05Z", not text`,
		`{"List":[{"Odd":"x"}]}`:             "List[0].Odd must be a whole number, not text",
		`{"Map":{"a.b":{"Name":[]}}}`:        `Map["a.b"].Name must be text, not a list`,
		`{"Meta":{"k":1}}`:                   `Meta["k"] must be text, not 1`,
		`{"Deep":"yes"}`:                     "Deep must be true or false, not text",
		`{"named":{}}`:                       "named must be text, not an object",
		`{"named":7,"named":"x"}`:            "named must be text", // encoding/json decodes both
		`{"named":7} {}`:                     "named must be text, not 7",
		`{"List":[{"Raw":{"a":[]},"Free":[1],"Count":null}],"Deep":null}`: "",
		`{"Deep":tru}`: "invalid character",
		`{"Deep":`:     "unexpected EOF",
	} {
		err := json.NewDecoder(strings.NewReader(body)).Decode(&outer{})
		err = model.WrongType(err, []byte(body), &outer{}, "")
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s\n got %v\nwant %s", body, err, want)
		}
		if strings.Contains(want, "must be") && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v has another class", body, err)
		}
	}
	body := `{"Meta":7}`
	if err := model.WrongType(json.Unmarshal([]byte(body), &outer{}), []byte(body), &outer{}, "Job"); err == nil || err.Error() != "Job.Meta must be an object, not 7" {
		t.Errorf("below a name: %v", err)
	}
}
