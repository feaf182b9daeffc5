// SPDX-License-Identifier: Apache-2.0

// Package npm makes the npm package of the browser's side: of the sources of the files that the server serves,
// and of what an npm package has beside them. Nothing of it is published from here.
package npm
