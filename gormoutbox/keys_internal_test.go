package gormoutbox

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Rows with these partitions are in tables: the function never changes. The
// values were computed by another program.
func TestPartitionVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		aggregateType, aggregateID string
		count, want                int
	}{
		{"order", "1", 64, 19},
		{"order", "2", 64, 58},
		{"order", "0190b2a0-0000-7000-8000-000000000001", 64, 33},
		{"order", "1", 1, 0},
		{"order", "1", 1024, 723},
		{"", "", 64, 19},
		{"ä", "ß", 64, 34},
		{"customer", "a|b", 7, 0},
		{"ab", "c", 64, 36},
		{"a", "bc", 64, 33},
	} {
		assert.Equal(t, v.want, Partition(v.aggregateType, v.aggregateID, v.count))
	}
}

func TestPartitionSpreads(t *testing.T) {
	t.Parallel()
	hits := make([]int, 64)
	for range 64_000 {
		hits[Partition("order", uuid.NewString(), 64)]++
	}
	assert.Greater(t, slices.Min(hits), 800)
	assert.Less(t, slices.Max(hits), 1200)
	assert.NotEqual(t, Partition("ab", "c", 1<<30), Partition("a", "bc", 1<<30), "the parts are kept apart")
}

func TestJoinKey(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "a|b", joinKey([]string{"a|b"}), "a single part stays as it is")
	assert.Equal(t, `a\|b|c\\`, joinKey([]string{"a|b", `c\`}))
	assert.NotEqual(t, joinKey([]string{"a|b", "c"}), joinKey([]string{"a", "b|c"}))
}

// Different keys with as many parts stay different, and the parts can be had back.
func FuzzJoinKey(f *testing.F) {
	for _, s := range [][4]string{{"a", "b", "a", "b"}, {"a|", "b", "a", "|b"}, {`a\`, "b", "a", `\b`}, {"", "|", "|", ""}, {`\|`, "", `\`, "|"}} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		same := a == c && b == d
		if joinKey([]string{a, b}) == joinKey([]string{c, d}) != same {
			t.Fatalf("%q %q and %q %q", a, b, c, d)
		}
		if got := splitKey(joinKey([]string{a, b, c})); !slices.Equal(got, []string{a, b, c}) {
			t.Fatalf("%q", got)
		}
	})
}

// splitKey is the reverse of joinKey for several parts.
func splitKey(key string) (parts []string) {
	var b strings.Builder
	escaped := false
	for _, c := range []byte(key) {
		switch {
		case escaped:
			b.WriteByte(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '|':
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	return append(parts, b.String())
}

// A tag is either refused with reasons or can be used as it is.
func FuzzParseTag(f *testing.F) {
	for _, tag := range []string{
		"aggregate=order", "aggregate=order, on=created|deleted ,type=o.{kind},topic=t,version=2,key=id", "", ",", "=", "aggregate", "aggregate=",
		"aggregate=a,aggregate=b", "on=", "on=created||updated,aggregate=x", "aggregate=a=b", "aggregate=\x00", "colour=red", "type=" + strings.Repeat("x", 300),
	} {
		f.Add(tag)
	}
	f.Fuzz(func(t *testing.T, tag string) {
		a, errs := parseTag("Model", tag)
		if len(errs) > 0 {
			for _, err := range errs {
				c, ok := err.(*ConfigError) //nolint:errorlint // not wrapped
				require.True(t, ok)
				assert.NotEmpty(t, c.Field)
				assert.NotEmpty(t, c.Cause)
				assert.NotEmpty(t, c.Cure)
			}
			return
		}
		for _, kind := range []Kind{Created, Updated, Deleted, Upserted} {
			assert.Empty(t, nameProblem(a.typeOf(kind)))
			if len(a.on) == 0 {
				assert.True(t, a.emits(kind))
			}
		}
		assert.Empty(t, nameProblem(a.aggregate))
		e := Event{Type: a.typeOf(Created), AggregateType: a.aggregate, AggregateID: "1", Topic: a.topic, Version: a.version, Payload: "1"}
		_, err := e.toRow()
		require.NoError(t, err)
	})
}

// Accepted headers are stored as they were given, and reserved ones never.
func FuzzHeaders(f *testing.F) {
	f.Add("a", "b")
	f.Add("", "x")
	f.Add("name", "x")
	f.Add("\xff", "")
	f.Add("a\x00", "\u2028<>&\"")
	f.Fuzz(func(t *testing.T, name, value string) {
		dst := map[string]string{}
		if err := addHeaders(dst, map[string]string{name: value}); err != nil {
			assert.Empty(t, dst)
			return
		}
		assert.False(t, IsReservedHeader(name))
		assert.Equal(t, map[string]string{name: value}, dst)
		assert.Equal(t, dst, roundTrip(t, dst))
	})
}

// roundTrip encodes headers as the writer does and decodes them as a reader does.
func roundTrip(t *testing.T, headers map[string]string) map[string]string {
	t.Helper()
	text, err := json.Marshal(headers)
	require.NoError(t, err)
	var out map[string]string
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}
