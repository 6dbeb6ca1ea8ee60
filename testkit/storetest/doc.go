// Package storetest opens stores for tests: in memory where only behaviour
// matters, on disk where durability does, and with an engine that fails on
// demand.
package storetest
