package testenv_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"

	"github.com/gormoutbox/outbox/internal/testenv"
)

// newIDs answers an INSERT with the keys that the server drew.
func newIDs(ids ...int64) testenv.AnswerFunc {
	return func(query string, _ []driver.Value) ([]string, [][]driver.Value, int64, error) {
		if !strings.HasPrefix(query, "INSERT") {
			return nil, nil, 0, nil
		}
		var rows [][]driver.Value
		for _, id := range ids {
			rows = append(rows, []driver.Value{id})
		}
		return []string{"id"}, rows, int64(len(rows)), nil
	}
}

func TestSQLServerCreate(t *testing.T) {
	t.Parallel()
	db, recorder := testenv.SQLServer(t, newIDs(41, 42))
	recorder.Reset()

	notes := []note{{Text: "a"}, {Text: "b"}}
	create := db.Create(&notes)
	require.NoError(t, create.Error)
	assert.Equal(t, int64(2), create.RowsAffected)
	assert.Equal(t, []note{{ID: 41, Text: "a"}, {ID: 42, Text: "b"}}, notes)

	const insert = `INSERT INTO "notes" ("text") OUTPUT INSERTED."id" VALUES (@p1),(@p2);`
	assert.Equal(t, []testenv.Statement{
		{SQL: "BEGIN", Conn: 1},
		{SQL: insert, Args: []driver.Value{"a", "b"}, Conn: 1},
		{SQL: "COMMIT", Conn: 1},
	}, recorder.Statements())
	assert.Equal(t, []string{"BEGIN", insert, "COMMIT"}, recorder.SQL())

	recorder.Reset()
	assert.Empty(t, recorder.Statements())
}

func TestSQLServerOpensSilently(t *testing.T) {
	t.Parallel()
	_, recorder := testenv.SQLServer(t, nil)
	assert.Empty(t, recorder.SQL())
}

func TestSQLServerErrorRollsBack(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for failing, want := range map[string][]string{
		"BEGIN":  {"BEGIN"},
		"UPDATE": {"BEGIN", "UPDATE", "ROLLBACK"},
		"COMMIT": {"BEGIN", "UPDATE", "COMMIT"},
	} {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			db, recorder := testenv.SQLServer(t, func(query string, _ []driver.Value) ([]string, [][]driver.Value, int64, error) {
				if strings.HasPrefix(query, failing) {
					return nil, nil, 0, refused
				}
				return nil, nil, 3, nil
			})
			update := db.Model(&note{}).Where("id < ?", 9).Update("text", "x")
			require.ErrorIs(t, update.Error, refused)
			assert.Equal(t, want, verbs(recorder))
		})
	}
}

func TestSQLServerPreparedStatements(t *testing.T) {
	t.Parallel()
	db, recorder := testenv.SQLServer(t, newIDs(7), &gorm.Config{PrepareStmt: true})
	one := note{Text: "a"}
	require.NoError(t, db.Create(&one).Error)
	assert.Equal(t, int64(7), one.ID)
	update := db.Model(&one).Update("text", "b")
	require.NoError(t, update.Error)
	assert.Zero(t, update.RowsAffected)
	assert.Equal(t, []string{"BEGIN", "INSERT", "COMMIT", "BEGIN", "UPDATE", "COMMIT"}, verbs(recorder))
	assert.Equal(t, []driver.Value{"b", int64(7)}, recorder.Statements()[4].Args)
}

func TestSQLServerConnections(t *testing.T) {
	t.Parallel()
	db, recorder := testenv.SQLServer(t, nil)
	// Inside of the first transaction, so on another connection.
	require.NoError(t, db.Transaction(func(outer *gorm.DB) error {
		require.NoError(t, db.Exec("SELECT 2").Error)
		return outer.Exec("SELECT 1").Error
	}))
	assert.Equal(t, []testenv.Statement{
		{SQL: "BEGIN", Conn: 1},
		{SQL: "SELECT 2", Conn: 2},
		{SQL: "SELECT 1", Conn: 1},
		{SQL: "COMMIT", Conn: 1},
	}, recorder.Statements())
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	recorder := testenv.NewRecorder(nil)
	pool := recorder.Pool()
	defer pool.Close()

	// Connections of their own, because the pool's lock would order what is
	// to happen at once.
	const clients, each = 8, 100
	var group errgroup.Group
	for range clients {
		conn, err := pool.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		group.Go(func() error {
			for range each {
				if _, err := conn.ExecContext(t.Context(), "UPDATE x SET y = @p1", 1); err != nil {
					return err
				}
				recorder.SQL()
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())

	count := map[int]int{}
	for _, statement := range recorder.Statements() {
		count[statement.Conn]++
	}
	assert.Len(t, count, clients)
	for conn, statements := range count {
		assert.Equal(t, each, statements, "of connection %d", conn)
	}
}

func TestRecorderObeysTheContext(t *testing.T) {
	t.Parallel()
	recorder := testenv.NewRecorder(nil)
	pool := recorder.Pool()
	defer pool.Close()
	conn, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = conn.ExecContext(ctx, "UPDATE x SET y = 1")
	require.ErrorIs(t, err, context.Canceled)
	var y int
	require.ErrorIs(t, conn.QueryRowContext(ctx, "SELECT y FROM x").Scan(&y), context.Canceled)
	_, err = conn.BeginTx(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, recorder.Statements())
}

// verbs are the first words of what was recorded.
func verbs(recorder *testenv.Recorder) []string {
	var verbs []string
	for _, text := range recorder.SQL() {
		verb, _, _ := strings.Cut(text, " ")
		verbs = append(verbs, verb)
	}
	return verbs
}
