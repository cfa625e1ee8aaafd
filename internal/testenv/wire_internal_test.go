package testenv

import (
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPostgresWire(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://u@db:5/d?sslmode=disable&search_path=s1":                 "tcp db:5",
		"postgresql://u@/d?host=db&port=5&search_path=s1&sslmode=disable":    "tcp db:5",
		"host=db port=5 user=u dbname=d sslmode=disable search_path=s1":      "tcp db:5",
		"host=/run/pg port=5 user=u dbname=d search_path=s1 sslmode=disable": "unix /run/pg/.s.PGSQL.5",
	} {
		network, address, err := postgresWire.locate(dsn)
		require.NoError(t, err)
		assert.Equal(t, want, network+" "+address, dsn)

		rerouted, err := postgresWire.reroute(dsn, "127.0.0.1:6")
		require.NoError(t, err)
		network, address, err = postgresWire.locate(rerouted)
		require.NoError(t, err)
		assert.Equal(t, "tcp 127.0.0.1:6", network+" "+address, dsn)
		config, err := pgx.ParseConfig(rerouted)
		require.NoError(t, err)
		assert.Equal(t, "u", config.User, dsn)
		assert.Equal(t, "d", config.Database, dsn)
		assert.Equal(t, "s1", config.RuntimeParams["search_path"], dsn)
		assert.Nil(t, config.TLSConfig, dsn)
	}
}

func TestMariaDBWire(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"u:p@tcp(db:5)/d?parseTime=true&auto_increment_increment=2":    "tcp db:5",
		"u:p@unix(/run/m)/d?parseTime=true&auto_increment_increment=2": "unix /run/m",
	} {
		network, address, err := mariadbWire.locate(dsn)
		require.NoError(t, err)
		assert.Equal(t, want, network+" "+address, dsn)

		rerouted, err := mariadbWire.reroute(dsn, "127.0.0.1:6")
		require.NoError(t, err)
		config, err := mysql.ParseDSN(rerouted)
		require.NoError(t, err)
		assert.Equal(t, "tcp 127.0.0.1:6", config.Net+" "+config.Addr, dsn)
		assert.Equal(t, "u", config.User, dsn)
		assert.Equal(t, "d", config.DBName, dsn)
		assert.True(t, config.ParseTime, dsn)
		assert.Equal(t, "2", config.Params["auto_increment_increment"], dsn)
	}
}
