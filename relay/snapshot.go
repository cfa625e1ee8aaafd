package relay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// snapshot is what PostgreSQL says about the transactions that a statement can't see.
type snapshot struct {
	// end is the id from which on transactions had not ended, open has those below that had not, in order.
	end  int64
	open []int64
}

// parseSnapshot reads the text of a pg_snapshot, "xmin:xmax:xip,xip,…".
func parseSnapshot(text string) (s snapshot, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, fmt.Errorf("%q is no snapshot", text)
	}
	if s.end, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return s, fmt.Errorf("%q is no snapshot: %w", text, err)
	}
	for xid := range strings.SplitSeq(parts[2], ",") {
		if xid == "" {
			continue
		}
		n, err := strconv.ParseInt(xid, 10, 64)
		if err != nil {
			return s, fmt.Errorf("%q is no snapshot: %w", text, err)
		}
		s.open = append(s.open, n)
	}
	slices.Sort(s.open)
	return s, nil
}

// running says whether a transaction that was open in an earlier snapshot still is.
func (s snapshot) running(xid int64) bool {
	_, found := slices.BinarySearch(s.open, xid)
	return found
}
