// SPDX-License-Identifier: Apache-2.0

// Package policyfile reads policies from a JSON file, so an operator can change them without
// a new build. docs/policyfile.md describes it, and docs/policyfile.schema.json is its
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
//   - It trusts the file's owner. The whole text is held in memory.
//   - It uses go-playground/validator, which weighs more than the rest of Tallystick. So it
//     is a package of its own, and only its users link that.
package policyfile
