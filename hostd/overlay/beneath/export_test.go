package beneath

// Walking returns d as it behaves where openat2 is missing.
func (d *Dir) Walking() *Dir {
	d.walk = true
	return d
}
