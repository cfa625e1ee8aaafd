//go:build linux

package main

import (
	"context"
)

const kafkaVersion = "4.1.1"

// kafkaArtifacts name the broker; Maven brings what it depends on.
// slf4j-simple makes it log to its standard error.
var kafkaArtifacts = []artifact{
	{"org.apache.kafka", "kafka_2.13", kafkaVersion},
	{"org.slf4j", "slf4j-simple", "1.7.36"},
}

// download gets the broker's jars, unless they are there.
func (k *kafka) download(ctx context.Context) error {
	if exists(k.libs()) {
		return nil
	}
	return mavenCopy(ctx, k.home, k.libs(), kafkaArtifacts...)
}
