// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// A stage is drawn by one template, in the page and in every event of the stream: with a script and without, it is the same picture.
type stage struct {
	Steps     int
	Quota     int64
	Window    time.Duration
	Thrown    bool // the round throws its tokens away
	Instances []instanceView
	Lanes     []laneView
	Token     *tokenView // nil: the browser has none
	Said      string     // the last answer in a sentence
}

type instanceView struct {
	Number            int
	Admitted, Refused int
	Lit               bool // it was the last to answer
	LitAdmitted       bool
}

type laneView struct {
	Title             string
	Active, Tried     bool
	Admitted, Refused int
	Bound             int64
	Formula, Why      string
	Marks             []mark
	Skipped           int // marks that there is no room for
	NewestLit         bool
}
