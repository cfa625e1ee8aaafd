package formats

import (
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
)

// versions knows the attributes of CloudEvents and their types, under the names that they have on Kafka.
var versions = spec.WithPrefix("ce_")

// ReadCloudEvent is the consumer's side, with the SDK of CloudEvents: it reads a message as the SDK's Kafka binding
// reads a record in binary mode. Headers that are no attributes stay in the metadata.
func ReadCloudEvent(msg *message.Message) (*event.Event, error) {
	version := versions.Version(msg.Metadata.Get(versions.PrefixedSpecVersionName()))
	if version == nil {
		return nil, errors.New("no CloudEvent in binary mode")
	}
	e := event.New(version.String())
	for name, value := range msg.Metadata {
		// Attributes and extensions; other headers are passed over.
		if err := version.SetAttribute(e.Context, name, value); err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
	}
	e.SetDataContentType(msg.Metadata.Get(contentType))
	e.DataEncoded = msg.Payload
	return &e, e.Validate()
}
