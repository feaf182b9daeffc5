// SPDX-License-Identifier: Apache-2.0

package policyfile

import (
	"maps"
	"reflect"
	"slices"

	"github.com/tallystick/tallystick/middleware"
)

// overlay sets the fields of of from the keys of the same names, a struct of keys.go.
// Missing keys change nothing. A block is copied first: the program's is never written to.
func overlay(of, keys reflect.Value) {
	for i := range keys.NumField() {
		f, from := keys.Type().Field(i), keys.Field(i)
		if f.Tag.Get("file") == "apart" || from.IsNil() {
			continue
		}
		to := of.FieldByName(f.Name)
		switch {
		case f.Type == reflect.TypeFor[[]middleware.Fields](): // a list of words is a set of bits
			var all middleware.Fields
			for j := range from.Len() {
				all |= middleware.Fields(from.Index(j).Uint())
			}
			to.Set(reflect.ValueOf(all))
		case to.Kind() == reflect.Slice && to.Type().Elem().Kind() == reflect.Struct:
			list := reflect.MakeSlice(to.Type(), from.Len(), from.Len())
			for j := range from.Len() {
				overlay(list.Index(j), from.Index(j))
			}
			to.Set(list)
		case to.Kind() == reflect.Pointer:
			block := reflect.New(to.Type().Elem())
			if !to.IsNil() {
				block.Elem().Set(to.Elem())
			}
			overlay(block.Elem(), from.Elem())
			to.Set(block)
		case to.Kind() == reflect.Struct:
			overlay(to, from.Elem())
		case from.Kind() == reflect.Pointer:
			to.Set(from.Elem())
		default:
			to.Set(from)
		}
	}
}

// limitsOf returns the limits that keys describe.
func limitsOf(keys []limitKeys) []middleware.Limit {
	limits := make([]middleware.Limit, len(keys))
	for i := range keys {
		overlay(reflect.ValueOf(&limits[i]).Elem(), reflect.ValueOf(keys[i]))
	}
	return limits
}

// configOf applies a policy's keys to the program's Config, without identity, secrets
// and counter.
func configOf(name string, keys *policyKeys, base middleware.Config) middleware.Config {
	base.Policy = name
	overlay(reflect.ValueOf(&base).Elem(), reflect.ValueOf(keys).Elem())
	if keys.Tiers != nil {
		base.Tiers = make(map[string][]middleware.Limit, len(keys.Tiers))
		for tier, t := range keys.Tiers {
			base.Tiers[tier] = limitsOf(t.Limits)
		}
	}
	if keys.Units != nil {
		base.Units = maps.Clone(base.Units) // the program has what each costs
		for name, of := range keys.Units {
			u := base.Units[name]
			u.Limits = of.Limits
			if base.Units == nil {
				base.Units = make(map[string]middleware.Unit)
			}
			base.Units[name] = u
		}
	}
	base.Secrets = slices.Clone(base.Secrets)
	return base
}
