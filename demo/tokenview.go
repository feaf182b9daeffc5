// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// A tokenView is a token as the page shows it: decoded, as anybody can who has it. Nothing is
// verified here, and nothing of the signature is kept.
type tokenView struct {
	Header    string
	Payload   []piece
	Signature int // how many characters it has
	Own       bool

	fam string
}

// A piece is a part of a payload; marked, if the answer changed it.
type piece struct {
	Text   string
	Marked bool
}

// maxToken is what a token has at most: docs/wire.md.
const maxToken = 512

// pieces takes JSON apart into strings, numbers, and what is between them.
var pieces = regexp.MustCompile(`"[^"]*"|-?[0-9]+|[^"0-9-]+|-`)

// counts is where a payload has its counts: four numbers for each limit, of which the third
// is what was used in the window.
var counts = regexp.MustCompile(`"t":\[-?[0-9]+,-?[0-9]+,(-?[0-9]+)`)

// viewToken decodes a token. It marks what differs from the token before. Where that was none, or
// has another shape, it marks the count, or the tally if nothing is counted yet. What is no token
// is shown as none.
func viewToken(token string, before tokenView) (v tokenView) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return tokenView{}
	}
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || !json.Valid(header) {
		return tokenView{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return tokenView{}
	}
	var claims struct {
		Fam string `json:"fam"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return tokenView{}
	}
	v = tokenView{Header: string(header), Signature: len(parts[2]), Own: claims.Fam != "", fam: claims.Fam}
	news := -1 // where the payload has what is new
	if at := counts.FindSubmatchIndex(payload); at != nil {
		news = at[2]
	} else if v.Own {
		news = bytes.Index(payload, []byte(`"`+v.fam+`"`))
	}
	texts, place := pieces.FindAllString(string(payload), -1), 0
	same := before.fam == v.fam && len(texts) == len(before.Payload)
	for i, text := range texts {
		p := piece{Text: text}
		if same {
			p.Marked = before.Payload[i].Text != text
		} else {
			p.Marked = place == news
		}
		place += len(text)
		v.Payload = append(v.Payload, p)
	}
	return v
}
