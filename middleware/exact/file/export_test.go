package file

// Create is what Open does where there is no file.
func Create(path string) error { return create(path) }

// Waiting is how many calls wait to be written.
func (c *Counter) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}
