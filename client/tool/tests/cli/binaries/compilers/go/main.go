package main

//go:nosplit
func inlined(n int) int { return n*n + 7 }

//go:nosplit
//go:noinline
func work(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s += inlined(i)
		s ^= n
	}
	return s
}

type T struct{ n int }

//go:nosplit
//go:noinline
func (t *T) Method(n int) int { return work(n) + t.n }

//go:nosplit
func main() {
	t := T{3}
	t.Method(7)
}
