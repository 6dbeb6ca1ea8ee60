package engine

// Linked statically, the process starts without a dynamic linker and needs no
// library of the host.

/*
#cgo LDFLAGS: -static
#include <stddef.h>
#include <unistd.h>

// v8go does not wrap these three; they are V8's own, by their C++ names.
extern void *v8_current(void) __asm__("_ZN2v87Isolate10GetCurrentEv");
extern void v8_on_near_heap_limit(void *, size_t (*)(void *, size_t, size_t), void *) __asm__("_ZN2v87Isolate24AddNearHeapLimitCallbackEPFmPvmmES1_");
extern void v8_terminate(void *) __asm__("_ZN2v87Isolate18TerminateExecutionEv");

static volatile int hits;

// The snippet is terminated and V8 gets room to unwind. The line on stderr
// tells the daemon even if that room is not enough and V8 aborts.
static size_t near_limit(void *isolate, size_t now, size_t initial) {
	static const char mark[] = "isolate: heap limit\n";
	if (hits++ == 0) {
		ssize_t ignored = write(2, mark, sizeof mark - 1);
		(void)ignored;
	}
	v8_terminate(isolate);
	return now + (8u << 20);
}

static void install_heap_hook(void) {
	void *isolate = v8_current();
	v8_on_near_heap_limit(isolate, near_limit, isolate);
}

static int heap_hits(void) { return hits; }
*/
import "C"

// installHeapHook must be called from inside V8, where an isolate is current.
func installHeapHook() { C.install_heap_hook() }

// heapLimitHit reports whether the snippet came to the heap's limit.
func heapLimitHit() bool { return C.heap_hits() > 0 }
