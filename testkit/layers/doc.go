// Package layers holds the import rules of the tree to account, in a test:
// arrows point one way.
package layers
