package kafka

// Partitioner decides which partition a key belongs to. Messages without a key go to
// any partition.
type Partitioner int

// The partitioners. Another one moves keys to other partitions, so a topic must keep its own.
const (
	// PartitionerSarama is sarama's and watermill-kafka's: FNV-1a.
	PartitionerSarama Partitioner = iota
	// PartitionerJava puts keys where the Java client puts them: toPositive(murmur2(key)) % n.
	PartitionerJava
)
