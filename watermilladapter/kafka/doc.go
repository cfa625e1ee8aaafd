// Package kafka has what an outbox needs on Kafka: a publisher that sends whole batches and
// keeps the order of each aggregate while brokers fail, a marshaler that gives each
// message its aggregate id as key, settings under which sarama loses and
// reorders nothing, and a constructor for watermill-kafka's subscriber with both.
//
//	publisher, err := kafka.NewPublisher([]string{"localhost:9092"}, logger)
//	subscriber, err := kafka.NewSubscriber([]string{"localhost:9092"}, "stock", logger)
//
// For TLS, SASL or other settings:
//
//	config := kafka.PublisherConfig()
//	config.Net.TLS.Enable = true
//	publisher, err := kafka.NewPublisherWith(kafka.PublisherOptions{Brokers: brokers, Sarama: config})
//
// [Marshaler] and [PublisherConfig] fit watermill-kafka's publisher too.
//
// # Order
//
// Kafka keeps order within a partition, and the key decides the partition. So
// the events of an aggregate stay in order if they have one key, which is what
// [Marshaler] sees to, and one topic: an event's topic is its type unless the
// annotation has topic=… or gormoutbox.Config.Topic says otherwise.
//
// The number of partitions must stay as it is: adding some moves keys to other
// partitions. watermill-kafka's own DefaultMarshaler sets no key, so that events
// of one aggregate are spread over all partitions; consumers can read the
// messages of either marshaler with either.
//
// # Settings
//
// What [PublisherConfig] sets, against watermill-kafka's
// DefaultSaramaSyncPublisherConfig:
//
//	setting                     watermill-kafka  here    why
//	Producer.RequiredAcks       WaitForLocal     All     with the leader's acknowledgement alone, an event that
//	                                                     the outbox has ticked off is lost if the leader dies
//	                                                     before a follower has it
//	Producer.Idempotent         false            true    a retry within the producer is neither a duplicate nor
//	                                                     out of order
//	Net.MaxOpenRequests         5                1       idempotence requires it in sarama; messages of concurrent
//	                                                     callers are batched into the one request
//	Version                     1.0.0            2.8.0   Kafka 4 no longer speaks the protocols before 2.1, and 2.8
//	                                                     is what sarama covers in full; set V2_1_0_0 for older brokers
//	Producer.Return.Errors      true             true    the synchronous producer needs it
//	Producer.Return.Successes   true             true    likewise
//	Producer.Timeout            10 s             5 s     how long the leader waits for its followers
//	Producer.Retry.Max          10               2       the outbox tries again, and for ever; see Outages
//	Producer.Retry.Backoff      100 ms           250 ms  leaves an election some time
//	Net.DialTimeout             30 s             4 s     see Outages
//	Net.ReadTimeout             30 s             8 s     likewise; must be more than Producer.Timeout
//	Net.WriteTimeout            30 s             8 s     likewise
//	Metadata.Retry.Backoff      2 s              250 ms  likewise; also the first event of a topic that Kafka
//	                                                     creates waits for it
//	Metadata.Timeout            none             4 s     likewise
//	Producer.Compression        none             none    Kafka compresses batches, and few small events gain
//	                                                     nothing; set CompressionZSTD for large ones
//	Producer.Partitioner        FNV hash         same    keys stay in the partitions where watermill-kafka puts
//	                                                     them; choose PartitionerJava if Java clients write
//	                                                     to the same topics
//	ClientID                    watermill        gormoutbox
//
// What [SubscriberConfig] sets, against DefaultSaramaSubscriberConfig:
//
//	setting                     watermill-kafka  here    why
//	Consumer.Offsets.Initial    newest           oldest  a new consumer group would skip what was published
//	                                                     before its first start, and what is published
//	                                                     while it joins
//	Version                     1.0.0            2.8.0   as above
//	Consumer.Return.Errors      true             true    watermill-kafka logs them
//	Net.ReadTimeout             30 s             65 s    a member that joins the group gets its answer when the
//	                                                     others have finished their handlers, which may take all of
//	                                                     Consumer.Group.Rebalance.Timeout, 60 s; if it gives up before,
//	                                                     the rebalance begins again
//	Net.DialTimeout             30 s             4 s     the next broker is tried sooner
//	Net.WriteTimeout            30 s             8 s     likewise
//	Metadata.Timeout            none             4 s     likewise
//	ClientID                    watermill        gormoutbox
//
// # Outages
//
// NewPublisher needs no broker; a [Publisher] connects when it is first used.
//
// Publish ignores the message's context, so these settings alone
// bound it. A broker that refuses connections makes it fail within
// [RefusedTimeout], one that is silent, as behind a cut network, within [SilentTimeout].
// PublishBatch fails then too, or when its context ends.
// relay.Config.ShutdownTimeout should not be shorter than the former.
// After three such failures in a row sarama refuses the sends of Publish to a topic or partition at once, for
// 10 seconds. [IsOutage] and [IsPermanent] tell what an error is about.
package kafka
