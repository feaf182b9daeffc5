package storeless_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tallystick/tallystick/storeless"
)

// A memory of one set has room for 16 counts. The next family is admitted by
// its token alone; and is remembered once the windows of others have passed.
func TestSaturated(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			p := compile(t, storeless.Limit{Algorithm: a, Quota: 6, Window: minute})
			m := storeless.NewMemory(1, 1)
			for n := range 16 {
				v := take(m, p, midnight, stranger(m, n), 1)
				require.True(t, v.Admitted)
				require.False(t, v.Saturated, "family %d", n)
			}
			require.Zero(t, m.Saturations())

			late := storeless.Candidate{Key: stranger(m, 16)}
			v := take(m, p, midnight, late.Key, 0)
			require.False(t, v.Saturated, "a peek remembers nothing, so it misses nothing")
			for n := range p.Capacity() {
				tally, v := m.Take(midnight, p, &late, 1)
				require.True(t, v.Admitted, "request %d: nobody is refused for lack of room", n)
				require.True(t, v.Saturated)
				late.Shown = tally
			}
			require.Equal(t, uint64(p.Capacity()), m.Saturations())
			_, v = m.Take(midnight, p, &late, 1)
			require.False(t, v.Admitted, "the token counts")
			require.False(t, v.Saturated, "a refusal remembers nothing")

			v = take(m, p, midnight, late.Key, 1)
			require.True(t, v.Admitted && v.Saturated, "who drops the token is not bounded here: that is why it is said")

			require.Equal(t, p.Capacity()-1, drain(m, p, midnight, storeless.Candidate{Key: stranger(m, 3)}), "those remembered still are")

			later := midnight.Add(3 * minute)
			require.Equal(t, p.Capacity(), drain(m, p, later, storeless.Candidate{Key: late.Key}))
			require.Zero(t, drain(m, p, later, storeless.Candidate{Key: late.Key}), "remembered again")
		})
	}
}

// Of a family with several limits some may find room and others none: the
// verdict says so, and what is remembered holds.
func TestPartlySaturated(t *testing.T) {
	long := compile(t, storeless.Limit{Name: "long", Quota: 5, Window: hour})
	both := compile(t, storeless.Limit{Name: "long", Quota: 5, Window: hour}, storeless.Limit{Name: "short", Quota: 3, Window: minute})
	m := storeless.NewMemory(1, 1)
	for n := range 15 {
		take(m, long, midnight, stranger(m, n), 1)
	}
	v := take(m, both, midnight, 99, 3)
	require.True(t, v.Admitted)
	require.True(t, v.Saturated)
	v = take(m, both, midnight, 99, 3)
	require.False(t, v.Admitted, "the limit that was remembered")
	require.Equal(t, [2]bool{true, false}, [2]bool{v.Limits[0].Blocked, v.Limits[1].Blocked})
}

// The formula of the package's doc, against memories filled far beyond what they
// are made for, where saturation is frequent enough to measure. The seed of a
// memory is random; the bounds are ten standard deviations wide.
func TestSaturationFollowsPoisson(t *testing.T) {
	const families = 16_384
	one := storeless.Limit{Quota: 5, Window: minute}
	eight := make([]storeless.Limit, storeless.MaxLimits)
	for i := range eight {
		eight[i] = storeless.Limit{Name: string(rune('a' + i)), Quota: 5, Window: minute}
	}
	for _, row := range []struct {
		policy    *storeless.Policy
		load      float64
		low, high float64
		ratio     bool // of the bounds, to what the formula expects
	}{
		{compile(t, one), 0.5, 0, 2, false}, // expected: 10⁻⁵
		{compile(t, one), 1, 0, 12, false},  // 0.2
		{compile(t, one), 2, 0.5, 1.5, true},
		{compile(t, one), 4, 0.9, 1.1, true},
		{compile(t, eight...), 1, 0, 40, false}, // 1.5, times four where limits crowd
		{compile(t, eight...), 2, 0.5, 1.5, true},
	} {
		limits := row.policy.Len()
		m := storeless.NewMemory(families/limits, limits)
		expected := 0.0
		for n := range int(row.load * families / float64(limits)) {
			full := fullChance(16. / 3 * float64(n*limits) / families)
			expected += 1 - math.Pow(1-full, float64(limits)) // any of its limits
			take(m, row.policy, midnight, stranger(m, n), 1)
		}
		got := float64(m.Saturations())
		if row.ratio {
			got /= expected
		}
		require.GreaterOrEqual(t, got, row.low, "%d limits, load %v, expected %v", limits, row.load, expected)
		require.LessOrEqual(t, got, row.high, "%d limits, load %v, expected %v", limits, row.load, expected)
	}
	require.InDelta(t, 1.4e-4, fullChance(16./3), 0.05e-4, "as the doc has it, at the nominal load")
	require.InDelta(t, 2.6e-8, fullChance(8./3), 0.05e-8, "and at half of it")
}

// The formula holds at every size, up to a million families alive at once, and ten
// million where time does not matter. A
// set's overflow has a deviation of less than its mean at four times the nominal
// load; there are at least 7,500 sets in each row, so the bounds are ten
// deviations wide.
func TestSaturationAtEverySize(t *testing.T) {
	const load = 4
	p := compile(t, storeless.Limit{Quota: 5, Window: minute})
	type size struct{ families, trials int }
	sizes := []size{{1000, 40}, {16_000, 3}}
	if !testing.Short() {
		sizes = append(sizes, size{strangers() / load, 1})
	}
	for _, size := range sizes {
		cells := (size.families*3 + 15) / 16 * 16
		got, expected := 0.0, 0.0
		for range size.trials {
			m := storeless.NewMemory(size.families, 1)
			for n := range load * size.families {
				if n%16 == 0 {
					expected += 16 * fullChance(16*float64(n+8)/float64(cells))
				}
				take(m, p, midnight, stranger(m, n), 1)
			}
			got += float64(m.Saturations())
		}
		require.InEpsilon(t, expected, got, 0.1, "%d families", size.families)
	}
}

// fullChance is the chance that a Poisson variable of the given mean is 16 or more.
func fullChance(mean float64) float64 {
	term, below := math.Exp(-mean), 0.0
	for k := range 16 {
		below += term
		term *= mean / float64(k+1)
	}
	return 1 - below
}
