// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

// maxBody is far above what the longest valid form takes.
const maxBody = 64 << 10

// decode reads f from the body of r: a form in either of its encodings, or a
// JSON object. Fields it does not know are ignored. It returns nil if all went
// well; what the fields hold has not been checked then.
func decode(w http.ResponseWriter, r *http.Request, f form) *problem {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	var err error
	switch mediaType(r) {
	case "application/json":
		err = decodeJSON(r.Body, f)
	case "multipart/form-data":
		// maxBody is below what is kept in memory: no file is ever written.
		err = r.ParseMultipartForm(maxBody)
	case "application/x-www-form-urlencoded", "":
		err = r.ParseForm() // without a type there is nothing: an empty form
	default:
		return &problem{Status: http.StatusUnsupportedMediaType, Detail: "Send a form or JSON."}
	}
	var tooLarge *http.MaxBytesError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &tooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Detail: "Send at most 64 KiB."}
	case errors.As(err, &mistyped) && f.inputs()[mistyped.Field] != nil:
		return unprocessable(map[string]string{mistyped.Field: "This is not text."})
	case err != nil:
		return &problem{Status: http.StatusBadRequest, Detail: "The body cannot be read."}
	}
	for name, input := range f.inputs() {
		if r.PostForm != nil {
			*input = r.PostForm.Get(name)
		}
		if name != passwordInput {
			*input = strings.TrimSpace(*input)
		}
	}
	return nil
}

// decodeJSON reads one JSON value and nothing after it.
func decodeJSON(body io.Reader, f form) error {
	d := json.NewDecoder(body)
	if err := d.Decode(f); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("more than one JSON value"), err)
	}
	return nil
}

// mediaType returns the type of the body without parameters, "" if there is
// none, and something that matches nothing if it cannot be told.
func mediaType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return ""
	}
	t, _, err := mime.ParseMediaType(header)
	if err != nil {
		return "?"
	}
	return t
}
