package gormoutbox

import (
	"fmt"
	"hash/fnv"

	"github.com/google/uuid"
)

// layout are the partitions of an outbox: count of them, numbered from first on. It begins with 0, and Repartition gives new
// ones numbers that none had before.
type layout struct{ first, count int }

// part is the partition of an event.
func (l layout) part(aggregateType, aggregateID string, id uuid.UUID) int {
	if aggregateType == "" {
		return l.first + eventPartition(id, l.count)
	}
	return l.first + Partition(aggregateType, aggregateID, l.count)
}

// end is the first number behind the partitions.
func (l layout) end() int { return l.first + l.count }

// problem says why no event can be given a partition, given the last number in the table.
func (l layout) problem(t Tables, last int) string {
	switch {
	case l.count == 0:
		return "table " + t.Partitions + " is empty"
	case last != l.end()-1:
		return fmt.Sprintf("table %s has %d rows and numbers from %d to %d, so some were removed or added by hand: put them back, and change their number with gormoutbox.Repartition",
			t.Partitions, l.count, l.first, last)
	}
	return ""
}

// Partition is the place of an aggregate among count partitions: FNV-1a, 64
// bits, over the type, a zero byte and the id, folded to 32 bits, modulo count. It is fixed for ever,
// since rows with other partitions may be in the table. The partitions' numbers begin with 0 until Repartition was called.
func Partition(aggregateType, aggregateID string, count int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(aggregateType)) // hash.Hash never fails
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(aggregateID))
	return fold(h.Sum64(), count)
}

// eventPartition spreads the events without an aggregate, which have no order to keep.
func eventPartition(id uuid.UUID, count int) int {
	h := fnv.New64a()
	_, _ = h.Write(id[:])
	return fold(h.Sum64(), count)
}

// fold mixes the better high bits of FNV into the low ones before the modulo.
func fold(sum uint64, count int) int {
	return int((sum ^ sum>>32) & 0xffffffff % uint64(count)) //nolint:gosec // below count, which is an int
}
