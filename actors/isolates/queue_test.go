package isolates

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Against the rule written down the long way: among the connections that wait,
// none has fewer runs under way than the one that is served, which has less than
// its share, and within a connection the order is kept.
func TestQueue_IsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue[int]{share: rapid.IntRange(1, 4).Draw(t, "share")}
		waiting := map[string][]int{}
		running := map[string]int{}
		n := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "connection")
			switch rapid.SampledFrom([]string{"push", "push", "pop", "done"}).Draw(t, "step") {
			case "push":
				n++
				if ok := q.push(c, n, 5); ok != (len(waiting[c]) < 5) {
					t.Fatalf("push gave %v with %d waiting", ok, len(waiting[c]))
				} else if ok {
					waiting[c] = append(waiting[c], n)
				}
			case "pop":
				servable := q.due()
				got, item, ok := q.pop()
				least, due := -1, 0
				for k, w := range waiting {
					due += min(len(w), q.share-running[k])
					if len(w) > 0 && running[k] < q.share && (least < 0 || running[k] < least) {
						least = running[k]
					}
				}
				if servable != due {
					t.Fatalf("says that %d are due, and %d are", servable, due)
				}
				if ok != (least >= 0) {
					t.Fatalf("pop gave %v, waiting %v", ok, waiting)
				}
				if !ok {
					continue
				}
				if running[got] != least || item != waiting[got][0] {
					t.Fatalf("served %s (%d running, item %d); least is %d, its first is %d", got, running[got], item, least, waiting[got][0])
				}
				waiting[got] = waiting[got][1:]
				running[got]++
			case "done":
				if running[c] > 0 {
					running[c]--
					q.done(c)
				}
			}
			total := 0
			for _, w := range waiting {
				total += len(w)
			}
			if q.waiting != total {
				t.Fatalf("counts %d waiting, there are %d", q.waiting, total)
			}
		}
		var want []int
		for _, w := range waiting {
			want = append(want, w...)
		}
		got := q.drain()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || q.waiting != 0 {
			t.Fatalf("drained %v, want %v", got, want)
		}
		for c, k := range running {
			for range k {
				q.done(c)
			}
		}
		if len(q.lines) != 0 {
			t.Fatalf("idle connections are kept: %d", len(q.lines))
		}
	})
}
