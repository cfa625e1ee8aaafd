//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// ping asks for the cluster's brokers. A broker that has only begun to listen
// does not count itself among them yet.
func (k *kafka) ping(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", k.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.Write(metadataRequest()); err != nil {
		return err
	}

	var size int32
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return err
	}
	if size < 8 || size > 1<<20 {
		return fmt.Errorf("not a Kafka broker: answer of %d bytes", size)
	}
	response := make([]byte, size)
	if _, err := io.ReadFull(conn, response); err != nil {
		return err
	}
	return checkMetadata(response)
}

const correlationID = 0x6f75746f // "outo": any number will do

// metadataRequest is a Metadata request, version 1, for no topic.
func metadataRequest() []byte {
	const apiKey, version = 3, 1
	request := binary.BigEndian.AppendUint32(nil, 2+2+4+2+4) // what follows
	request = binary.BigEndian.AppendUint16(request, apiKey)
	request = binary.BigEndian.AppendUint16(request, version)
	request = binary.BigEndian.AppendUint32(request, correlationID)
	request = binary.BigEndian.AppendUint16(request, 0xffff) // no client id
	return binary.BigEndian.AppendUint32(request, 0)         // no topics
}

// checkMetadata reads the response's beginning: correlation id and number of
// brokers.
func checkMetadata(response []byte) error {
	if len(response) < 8 || binary.BigEndian.Uint32(response) != correlationID {
		return errors.New("not a Kafka broker: answer to another question")
	}
	if binary.BigEndian.Uint32(response[4:]) == 0 {
		return errors.New("no broker has registered yet")
	}
	return nil
}
