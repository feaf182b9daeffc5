// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/http"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// population returns a new population with tokens: tests may spoil it.
func population(t *testing.T, size int) *Population {
	t.Helper()
	c, err := NewPopulation(size)
	require.NoError(t, err)
	h, err := issuer()
	require.NoError(t, err)
	require.NoError(t, c.Issue(h, cookieName))
	return c
}

// work sends n requests for c from each of two seats and returns the audit.
func work(t *testing.T, h http.Handler, c *Population, r Request, want, n int) error {
	t.Helper()
	var seats []*seat
	for i := range 2 {
		s := newSeat(h, c, r, want)
		s.sit(i*c.size/2, (i+1)*c.size/2)
		seats = append(seats, s)
		for range n {
			s.send()
		}
	}
	return audit(seats, nil, 2*n)
}

var get = Request{Method: http.MethodGet}

func TestAuditPassesWhatIsAsMeant(t *testing.T) {
	c := population(t, 1000)
	for _, n := range []int{1, 499, 500, 1700} {
		require.NoError(t, work(t, Served(), c, get, http.StatusOK, n), "%d requests", n)
	}
	one := population(t, 1)
	require.NoError(t, work(t, Served(), one, get, http.StatusOK, 10), "two seats share one client")
}

// The bugs that benchmarks have had, planted.
func TestAuditCatches(t *testing.T) {
	refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTooManyRequests) })
	served := 0
	sometimes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served++; served == 70 {
			refusing(w, r)
			return
		}
		Served().ServeHTTP(w, r)
	})
	empty := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

	oneKey := population(t, 1000)
	for i := range 1000 {
		copy(oneKey.addresses[i*addressLen:], oneKey.Address(0))
	}
	twice := population(t, 1000)
	copy(twice.addresses[7*addressLen:], twice.Address(8))
	strangers := population(t, 1000)
	copy(strangers.addresses, "10.249.249.249:40000")
	good := population(t, 1000)

	for _, c := range []struct {
		name       string
		handler    http.Handler
		population *Population
		want       int
		message    string
	}{
		{"one key for all clients", Served(), oneKey, http.StatusOK, "1 different clients asked, not the 1000"},
		{"two clients with one address", Served(), twice, http.StatusOK, "999 different clients asked"},
		{"an address from elsewhere", Served(), strangers, http.StatusOK, "1 requests came from outside"},
		{"a limiter that refuses", refusing, good, http.StatusOK, "1000 of 1000 answers are wrong, the first with status 429"},
		{"a limiter that refuses once", sometimes, good, http.StatusOK, "1 of 1000 answers are wrong"},
		{"a limiter that never refuses", Served(), good, http.StatusTooManyRequests, "with status 200"},
		{"an answer that is not the handler's", empty, good, http.StatusOK, "with status 200 and 0 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, work(t, c.handler, c.population, get, c.want, 500), c.message)
		})
	}

	t.Run("requests that were not sent", func(t *testing.T) {
		s := newSeat(Served(), good, get, http.StatusOK)
		s.send()
		require.ErrorContains(t, audit([]*seat{s}, nil, 2), "1 requests were sent, not 2")
	})
	t.Run("a seat that stays with one client", func(t *testing.T) {
		s := newSeat(Served(), good, get, http.StatusOK)
		for range 10 {
			s.visit(3)
		}
		require.ErrorContains(t, audit([]*seat{s}, nil, 10), "1 different clients asked, not the 10")
	})
}

func TestAuditCatchesTokensThatAreNotAccepted(t *testing.T) {
	for _, shows := range []Shows{InHeader, InCookie} {
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			c := population(t, 100)
			terms := Plenty(c.size)
			if want != http.StatusOK {
				terms = One(c.size)
			}
			instance, err := withMemory(roomy)(Served(), terms)
			require.NoError(t, err)
			r := Request{Method: http.MethodGet, Shows: shows}
			require.NoError(t, introduce(instance, Limiter{Request: r}, c))
			require.NoError(t, work(t, instance, c, r, want, 640), "shown %d, wanted %d", shows, want)

			other := population(t, 100)
			for i := range other.size { // each client shows the token of the next
				copy(other.lines[i*other.lineLen:], c.Cookie((i+1)%c.size))
			}
			err = work(t, instance, other, r, want, 640)
			require.ErrorContains(t, err, "answers say that the token was not accepted", "shown %d, wanted %d", shows, want)
		}
	}
}

func TestCrowd(t *testing.T) {
	c := population(t, 30_000)
	addresses, tokens := make(map[string]bool), make(map[string]bool)
	for i := range c.size {
		addresses[c.Address(i)] = true
		tokens[c.Token(i)] = true
		require.Equal(t, i, clientOf(c.Address(i)))
		require.Equal(t, cookieName+"="+c.Token(i), c.Cookie(i))
	}
	require.Len(t, addresses, c.size)
	require.Len(t, tokens, c.size)
	require.Equal(t, "10.101.105.149:40000", c.Address(digits*digits+5*digits+49))

	few := c.first(10)
	require.Equal(t, 10, few.size)
	require.Equal(t, c.Cookie(9), few.Cookie(9))
	require.Equal(t, 30_000, c.size)

	for _, i := range []int{0, 3_374_999, 3_375_000, 9_999_999, maxClients - 1} {
		address := string(appendAddress(nil, i))
		require.Len(t, address, addressLen)
		require.Equal(t, i, clientOf(address))
		_, err := netip.ParseAddrPort(address)
		require.NoError(t, err)
	}
	for _, n := range []int{-1, 0, maxClients + 1} {
		_, err := NewPopulation(n)
		require.Error(t, err, n)
	}
	require.Negative(t, clientOf("192.0.2.1:80"))
	require.NotContains(t, everybody(c.size), clientOf("10.249.249.249:40000"))
}

func TestGather(t *testing.T) {
	for _, c := range []struct {
		clients int
		tokens  bool
	}{{3, false}, {2, true}, {5, true}, {4, false}, {4, true}, {6, false}, {1, true}} {
		population, err := gather(c.clients, c.tokens)
		require.NoError(t, err)
		require.Equal(t, c.clients, population.size)
		require.Equal(t, c.clients-1, clientOf(population.Address(c.clients-1)))
		if c.tokens {
			require.NotEmpty(t, population.Token(c.clients-1))
		}
	}
}

func TestStrideVisitsEverybody(t *testing.T) {
	for _, n := range []int{1, 2, 3, 150, 1000, 100_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			visited := newClients(n)
			for j := range n {
				visited.add(j * stride(n) % n)
			}
			require.Equal(t, n, visited.number())
		})
	}
}
