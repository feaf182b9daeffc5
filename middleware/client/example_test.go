// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/tallystick/tallystick/middleware/client"
	"github.com/tallystick/tallystick/pow"
)

func Example() {
	s := signup()
	defer s.Close()

	c := &http.Client{
		Transport: &client.Transport{},
		Timeout:   time.Minute, // solving and waiting included
	}
	for range 2 {
		resp, err := c.Post(s.URL+"/signup", "text/plain", bytes.NewReader([]byte("Ada")))
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(os.Stdout, resp.Body)
		_ = resp.Body.Close()
	}
	// Output:
	// welcome, Ada: you have paid
	// welcome, Ada: I know you
}

func ExampleTransport_Observe() {
	s := signup()
	defer s.Close()

	c := &http.Client{Transport: &client.Transport{
		Base:    http.DefaultTransport,
		MaxWork: 100,             // expected hashes: no challenge dearer than this
		MaxWait: 5 * time.Second, // for Retry-After, in all
		Observe: func(e client.Event) {
			fmt.Println(e.Request.URL.Path, e.Status, e.Action, e.Reason, e.Work)
		},
	}}
	resp, err := c.Post(s.URL+"/signup", "text/plain", bytes.NewReader([]byte("Ada")))
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// /signup 403 returning too-much-work 256
	// 403 Forbidden
}

// WRONG: a body that cannot be read twice. The first answer of the server is a
// challenge, and to answer it the body has to be sent once more. The refusal comes
// back; nothing was lost, and nothing was sent twice.
func ExampleTransport_wrongBody() {
	s := signup()
	defer s.Close()
	c := &http.Client{Transport: &client.Transport{}}

	upload, write := io.Pipe()
	go func() {
		_, _ = io.WriteString(write, "Ada")
		_ = write.Close()
	}()
	req, err := http.NewRequest(http.MethodPost, s.URL+"/signup", upload)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Println("wrong:", resp.Status)

	// RIGHT: say how to get the body again. http.NewRequest does so for the readers
	// of packages bytes and strings; for a file, open it again.
	again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("Ada"))), nil }
	body, err := again()
	if err != nil {
		log.Fatal(err)
	}
	req, err = http.NewRequest(http.MethodPost, s.URL+"/signup", body)
	if err != nil {
		log.Fatal(err)
	}
	req.GetBody = again
	resp, err = c.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	_ = resp.Body.Close()
	fmt.Println("right:", resp.Status)
	// Output:
	// wrong: 403 Forbidden
	// right: 200 OK
}

// WRONG: one Transport for the accounts of several customers. The token that Ada
// paid for is shown for Bob as well: they share its count, and the server learns
// that they are behind the same program.
func ExampleTransport_wrongAccounts() {
	s := signup()
	defer s.Close()
	signUp := func(c *http.Client, name string) {
		resp, err := c.Post(s.URL+"/signup", "text/plain", bytes.NewReader([]byte(name)))
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(os.Stdout, resp.Body)
		_ = resp.Body.Close()
	}

	shared := &http.Client{Transport: &client.Transport{}}
	signUp(shared, "Ada")
	signUp(shared, "Bob")

	// RIGHT: one for each. They may have a Base in common: connections are no
	// secret, and expensive.
	base := http.DefaultTransport
	signUp(&http.Client{Transport: &client.Transport{Base: base}}, "Ada")
	signUp(&http.Client{Transport: &client.Transport{Base: base}}, "Bob")
	// Output:
	// welcome, Ada: you have paid
	// welcome, Bob: I know you
	// welcome, Ada: you have paid
	// welcome, Bob: you have paid
}

// signup stands for a server with the middleware: newcomers prove first. Its
// tokens are unsigned, unlike the middleware's.
func signup() *httptest.Server {
	issuer, err := pow.New(pow.Config{Secrets: [][]byte{[]byte("an example, not random, 32 bytes")}})
	if err != nil {
		log.Fatal(err)
	}
	visitor := pow.Binding{Client: []byte("127.0.0.1"), Route: "signup"}
	const token = "eyJ0eXAiOiJKV1QifQ.eyJhdWQiOiJzaWdudXAifQ.c2lnbmF0dXJl" // {"aud":"signup"}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := io.ReadAll(r.Body)
		how := "I know you"
		if r.Header.Get("Tallystick-Token") != token {
			if _, err := issuer.Verify(time.Now(), visitor, r.Header.Get(pow.ProofField)); err != nil {
				challenge, err := issuer.Issue(time.Now(), visitor, 256)
				if err != nil {
					log.Print(err)
				}
				w.Header().Set(pow.ChallengeField, challenge.Header())
				w.WriteHeader(http.StatusForbidden)
				return
			}
			how = "you have paid"
		}
		w.Header().Set("Tallystick-Token", token)
		fmt.Fprintf(w, "welcome, %s: %s\n", name, how)
	}))
}
