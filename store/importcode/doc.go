// Package importcode reads the Go code of a workspace into the code graph:
// modules, symbols with their lines, imports, exports, and who calls whom. It
// uses go/parser alone: no build, no type checker, no network.
//
// Calls are found by name. A call of a package-level name, or of pkg.Name
// through an import of this workspace, is exact. A method call x.Name is
// resolved only when one method in the workspace has that name, and is then
// marked as not exact.
//
// Importing again replaces only what changed.
//
// Imports: store, messages.
package importcode
