package storeless

// A vacancy counts the cells that one request would claim.
type vacancy struct {
	n    int
	sets [(1 + MaxNetworks) * MaxLimits]*cell // the first cell of the set of each
}

// room reports whether every limit of a family, and of its networks, has a live
// cell or could claim one, all of them together. The stripes are locked.
func (m *Memory) room(p *Policy, now int64, f *Candidate) bool {
	// The horizon that keep will see: a longer one makes fewer cells free.
	horizon := m.furthest(p)
	for i := range f.Networks {
		horizon = m.furthest(f.Networks[i].Policy)
	}
	var v vacancy
	fits := v.claim(m, p, f.Key, now, horizon)
	for i := range f.Networks {
		fits = fits && v.claim(m, f.Networks[i].Policy, f.Networks[i].Key, now, horizon)
	}
	return fits
}

// furthest returns the horizon, those of p's limits included.
func (m *Memory) furthest(p *Policy) (horizon int64) {
	for i := range p.rules {
		horizon = m.horizon(p.rules[i].reach)
	}
	return horizon
}

// claim adds what the limits of p would claim for k, and reports whether there
// is that much. A family's own cell that has expired is claimed like any other,
// and perhaps by another.
func (v *vacancy) claim(m *Memory, p *Policy, k Key, now, horizon int64) bool {
	for i := range p.rules {
		id := p.rules[i].id
		if c := m.find(k, id); c != nil && !c.free(now, horizon) {
			continue
		}
		set, _, _ := m.place(k, id)
		free := 0
		for j := range set {
			if set[j].free(now, horizon) {
				free++
			}
		}
		for _, other := range v.sets[:v.n] {
			if other == &set[0] {
				free--
			}
		}
		if free <= 0 {
			return false
		}
		v.sets[v.n] = &set[0]
		v.n++
	}
	return true
}
