// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/netip"
	"strings"
)

// The waiting room: for people without a script, and for attackers that have nothing to do.

// ticketTime is after the first wait of a ticket.
const ticketTime = 6

// tickets gathers wait tickets at the door, each with a jar of its own, as cookies to show.
func (c *caller) tickets(base string, n int) (list []string) {
	for range n {
		a := c.do(http.MethodGet, base+"/"+c.policy+"/tally/ticket", "Accept", "text/html")
		for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
			if strings.HasSuffix(cookie.Name, ".wait") {
				list = append(list, cookie.Name+"="+cookie.Value)
			}
		}
	}
	return list
}

// waits shows every ticket everywhere, again and again.
func waits(s *scene) {
	c := s.attacker(netip.Addr{})
	list := c.tickets(s.through(), 4*len(s.cluster.instances))
	if len(list) == 0 {
		s.broken("the waiting room has no tickets")
		return
	}
	s.wait(ticketTime)
	s.each(func(base string) {
		for range s.more() {
			for _, ticket := range list {
				c.send(base, "Cookie", ticket)
			}
		}
	})
}

// noScript is somebody whose browser runs none: it is refused a page, waits, and presses the
// button again.
func (s *scene) noScript() {
	if !s.route.Room {
		return
	}
	address := s.host()
	c := s.caller(s.honestly(), s.dialer(address), address, true)
	list := c.tickets(s.through(), 1)
	s.wait(ticketTime)
	if len(list) == 0 {
		s.broken("somebody without a script gets no ticket")
		return
	}
	if a := c.send(s.through(), "Accept", "text/html", "Cookie", list[0]); !a.admitted() {
		s.broken("somebody without a script is not let in: " + a.decision.String())
	}
}
