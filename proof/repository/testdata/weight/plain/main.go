// SPDX-License-Identifier: Apache-2.0

// A contact form without any limit: what the others are weighed against.
package main

import (
	"log"
	"net/http"
)

func main() {
	http.HandleFunc("POST /contact", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
