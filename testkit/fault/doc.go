// Package fault injects failures into supervised actors: it makes
// supervise.Interceptor usable by rules. It works in test binaries only, because
// supervise refuses an interceptor anywhere else.
//
//	f := fault.New(fault.At("root/store", 3, supervise.Fault{Do: supervise.Panic}))
//	tree, err := supervise.Start(e, "root", supervise.Policy{Intercept: f.Intercept}, …)
//	f.Kill(tree, "launches/lp-1/lease")
package fault
