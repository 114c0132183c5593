// What the linker wants of the runtime, so that the program is small: it links and does not run.
package runtime

import _ "unsafe"

type moduledata struct{ n [80]uintptr }
type _type struct{ size uintptr }
type (
	arraytype         struct{ t _type }
	chantype          struct{ t _type }
	functype          struct{ t _type }
	maptype           struct{ t _type }
	ptrtype           struct{ t _type }
	slicetype         struct{ t _type }
	structtype        struct{ t _type }
	interfacetype     struct{ t _type }
	itab              struct{ t *_type }
	imethod           struct{ t _type }
	eface             struct{ t, data *_type }
	iface             struct{ t, data *_type }
	slice             struct{ array *byte; len, cap int }
	stringStructDWARF struct{ str *byte; len int }
	hmap              struct{ count int }
	bmap              struct{ tophash [8]uint8 }
	sudog             struct{ next *sudog }
	waitq             struct{ first *sudog }
	hchan             struct{ count uint }
	g                 struct{ n int }
)

var Types = [...]any{
	_type{}, arraytype{}, chantype{}, functype{}, maptype{}, ptrtype{}, slicetype{}, structtype{},
	interfacetype{}, itab{}, imethod{}, eface{}, iface{}, slice{}, stringStructDWARF{}, hmap{}, bmap{},
	moduledata{}, sudog{}, waitq{}, hchan{}, g{},
}

func memequal64(p, q *byte) bool { return *p == *q }
func memequal32(p, q *byte) bool { return *p == *q }
func memequal(p, q *byte, n uintptr) bool { return *p == *q }
func memequal_varlen(p, q *byte) bool { return *p == *q }
func strequal(p, q *byte) bool { return *p == *q }
func interequal(p, q *byte) bool { return *p == *q }
func nilinterequal(p, q *byte) bool { return *p == *q }
func memequal8(p, q *byte) bool { return *p == *q }
func memequal16(p, q *byte) bool { return *p == *q }
func memequal128(p, q *byte) bool { return *p == *q }
func memequal0(p, q *byte) bool { return true }

//go:linkname main_main main.main
func main_main()

//go:nosplit
func entry() { main_main(); assembled(1) }

//go:nosplit
func assembled(n int)
