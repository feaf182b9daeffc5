package exact

import (
	"time"

	"github.com/tallystick/tallystick/storeless"
)

// A working is an account under the limits of one policy, at one moment: a copy, which
// is stored only if something was charged or given back.
type working struct {
	policy *Policy
	now    time.Time
	tally  storeless.Tally // of the limits that keep no log
	logs   []chargeLog     // rolled; nil: no limit keeps one
}

// decide checks every limit, and if charge is set and all of them have room charges
// all.
func (s *working) decide(cost int64, charge bool) storeless.Verdict {
	p := s.policy
	if !p.hasLog {
		return s.step(p.steps, cost, charge)
	}
	v := s.logStatus(cost)
	of := storeless.Verdict{Admitted: true}
	if p.steps != nil {
		of = s.step(p.steps, cost, charge && v.Admitted)
	}
	v.Admitted, v.Impossible, v.Wait = v.Admitted && of.Admitted, v.Impossible || of.Impossible, max(v.Wait, of.Wait)
	if v.Admitted && charge {
		for i := range p.limits {
			if logged(p.limits[i].Algorithm) {
				s.logs[i].charge(until(&p.limits[i], s.now), cost)
			}
		}
		v.Limits = s.logStatus(0).Limits // how they stand now
	}
	for j, i := range p.place {
		v.Limits[i] = of.Limits[j]
	}
	if v.Impossible {
		v.Wait = 0
	}
	return v
}

// step decides by the limits that keep no log: all of the policy, or its steps.
func (s *working) step(p *storeless.Policy, cost int64, charge bool) (v storeless.Verdict) {
	tally := s.steps()
	if !charge {
		return p.Peek(s.now, tally, cost)
	}
	tally, v = p.Step(s.now, tally, cost)
	s.setSteps(tally)
	return v
}

// steps returns the states where the compiled steps of the policy have them.
func (s *working) steps() storeless.Tally {
	if !s.policy.hasLog {
		return s.tally
	}
	var tally storeless.Tally
	for j, i := range s.policy.place {
		tally[j] = s.tally[i]
	}
	return tally
}

func (s *working) setSteps(tally storeless.Tally) {
	if !s.policy.hasLog {
		s.tally = tally
		return
	}
	for j, i := range s.policy.place {
		s.tally[i] = tally[j]
	}
}

// logStatus says what the logs say of a call.
func (s *working) logStatus(cost int64) (v storeless.Verdict) {
	v.Admitted = true
	for i := range s.policy.limits {
		if !logged(s.policy.limits[i].Algorithm) {
			continue
		}
		quota := s.policy.limits[i].Quota
		of := s.logs[i].status(s.now.UnixNano(), quota, cost)
		v.Limits[i] = of
		v.Admitted = v.Admitted && !of.Blocked
		v.Impossible = v.Impossible || cost > quota
		if of.Blocked {
			v.Wait = max(v.Wait, of.Reset)
		}
	}
	return v
}

// restore takes back what was charged at a time.
func (s *working) restore(at time.Time, cost int64) {
	p := s.policy
	for i := range s.logs {
		if logged(p.limits[i].Algorithm) {
			s.logs[i].restore(until(&p.limits[i], at), cost)
		}
	}
	switch {
	case !p.hasLog:
		s.tally = p.steps.Restore(s.now, at, s.tally, cost)
	case p.steps != nil:
		s.setSteps(p.steps.Restore(s.now, at, s.steps(), cost))
	}
}

// ends returns the Unix second from which the i-th limit counts nothing.
func (s *working) ends(i int) int64 {
	p := s.policy
	if logged(p.limits[i].Algorithm) {
		if n := len(s.logs[i].entries); n > 0 {
			return s.logs[i].entries[n-1].until/int64(time.Second) + 1
		}
		return 0
	}
	var one storeless.Tally // the others count nothing
	one[i] = s.tally[i]
	return p.tokens.Expires(one)
}
