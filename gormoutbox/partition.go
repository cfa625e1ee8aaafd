package gormoutbox

import (
	"hash/fnv"

	"github.com/google/uuid"
)

// Partition is the partition of an aggregate among count partitions: FNV-1a, 64
// bits, over the type, a zero byte and the id, folded to 32 bits, modulo count. It is fixed for ever,
// since rows with other partitions may be in the table.
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
