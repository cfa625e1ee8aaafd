package relay

import "errors"

// errEnough ends a read of rows whose rest is not wanted.
var errEnough = errors.New("enough")

// budget bounds the bytes of one read.
type budget struct{ left int }

func (s *store) budget() *budget { return &budget{left: s.pageBytes} }

// take counts an event and says with errEnough that it was the last one.
func (b *budget) take(it *item) error {
	b.left -= it.bytes()
	if b.left <= 0 {
		return errEnough
	}
	return nil
}

// cut says whether the budget is used up, and clears an error that only ended the read.
func (b *budget) cut(err *error) bool {
	if errors.Is(*err, errEnough) {
		*err = nil
	}
	return b.left <= 0
}

// itemBytes is about what an event costs beside its texts.
const itemBytes = 400

// bytes is about how much memory the event takes.
func (it *item) bytes() int {
	n := itemBytes + len(it.Payload) + len(it.AggregateType) + len(it.AggregateID) + len(it.EventType) + len(it.Topic)
	for k, v := range it.Headers {
		n += len(k) + len(v)
	}
	return n
}

// pageSize says how many events a read asks for: Config.BatchSize, and fewer while so many would be too many bytes, since
// the database would send them all the same.
type pageSize struct{ most, now int }

// saw learns from a page: one that was cut asks for as many next time as there was room for, one that had
// room to spare for twice as many.
func (s *pageSize) saw(p page, bytes int) {
	total := 0
	for i := range p.items {
		total += p.items[i].bytes()
	}
	switch {
	case total >= bytes:
		s.now = 1
		for s.now*2 <= len(p.items) { // powers of two, so that there are few different statements
			s.now *= 2
		}
	case s.now < s.most && len(p.items) >= s.now && total <= bytes/2:
		s.now = min(2*s.now, s.most)
	}
}
