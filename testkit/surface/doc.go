// Package surface puts the whole surface together over a store on disk, as the
// daemon does and without its listeners: for tests and benches that need real
// rows and real isolates.
//
// Imports: whatever the daemon assembles.
package surface
