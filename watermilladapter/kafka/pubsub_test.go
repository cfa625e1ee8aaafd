package kafka_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gormoutbox/outbox/watermilladapter/kafka"
)

func TestMistakesInArguments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		brokers   []string
		publisher []string
	}{
		"nil":       {nil, []string{"brokers"}},
		"empty":     {[]string{}, []string{"brokers"}},
		"addresses": {[]string{"", "localhost:9092", "localhost", ":9092", "localhost:"}, []string{"brokers[0]", "brokers[2]", "brokers[3]", "brokers[4]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := kafka.NewPublisher(test.brokers, nil)
			assert.Equal(t, test.publisher, fieldsOf(t, err))
			_, err = kafka.NewSubscriber(test.brokers, "", nil)
			assert.Equal(t, append(test.publisher, "group"), fieldsOf(t, err), "all together")
		})
	}
}

// fieldsOf lists the fields of the joined errors.
func fieldsOf(t *testing.T, err error) []string {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%v", err)
	var fields []string
	for _, err := range joined.Unwrap() {
		var e *kafka.ConfigError
		require.ErrorAs(t, err, &e)
		assert.NotEmpty(t, e.Cause)
		assert.NotEmpty(t, e.Cure)
		assert.Contains(t, e.Error(), e.Field)
		fields = append(fields, e.Field)
	}
	return fields
}

func TestSubscriberConnectsLater(t *testing.T) {
	t.Parallel()
	s, err := kafka.NewSubscriber([]string{"127.0.0.1:1"}, "group", nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}
