// Package beneath works below a folder through its descriptor, so that nobody
// who renames folders or plants symbolic links on the way can move the work
// elsewhere. Paths are resolved by openat2 with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS, and where the kernel or a sandbox lacks it, component
// by component with O_NOFOLLOW.
//
//	dir.go     folders: open, make, read, write
//	open.go    the two ways of resolving
//	remove.go  deleting a whole folder, whatever is in it
package beneath
