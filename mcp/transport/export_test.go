package transport

// ViaServer makes every call go through HandleMessage.
func ViaServer(c *Config) { c.viaServer = true }
