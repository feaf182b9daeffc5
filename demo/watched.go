// SPDX-License-Identifier: Apache-2.0

package main

import "net/http"

// watched calls before with the status of the final response, just before its fields go.
type watched struct {
	http.ResponseWriter
	before func(status int)
	gone   bool
}

// Unwrap is for [http.ResponseController].
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *watched) WriteHeader(status int) {
	if status >= 200 && !w.gone {
		w.gone = true
		w.before(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *watched) Write(p []byte) (int, error) {
	if !w.gone {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
