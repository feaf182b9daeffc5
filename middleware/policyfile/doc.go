// SPDX-License-Identifier: Apache-2.0

// Package policyfile reads what an operator may change without a new program: policies, from
// a JSON file. docs/policyfile.md describes it, and docs/policyfile.schema.json is its
// schema.
//
//	set, err := policyfile.Open("policies.json", policyfile.Program{
//		Policies: map[string]middleware.Config{"contact": {PageHandler: page}},
//	})
//	...
//	http.Handle("POST /contact", set.Middleware("contact").Handler(contact))
//	...
//	err = policyfile.Reload(set) // when the file has changed, or its secrets
//
// Its limits first:
//
//   - It watches no file and starts no goroutine. The program calls [Reload], such as at SIGHUP.
//   - Functions and handlers do not belong in such a file. The program gives them, in
//     [Program]. Secrets do not either: the file says where they are.
//   - It believes the file's owner: what the file says is what everybody may use. The text
//     is held in memory as a whole.
//   - It is checked by go-playground/validator, which weighs more than the rest of Tallystick
//     together. It is a package of its own so that only its users link that.
package policyfile
