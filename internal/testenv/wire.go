package testenv

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// Via returns the database as seen through a proxy that counts the round
// trips of all the pools that are opened on it, as long as the test runs.
//
// What a statement costs is seen from its second time on: a new connection
// has its own round trips, and pgx prepares each statement that it has not
// seen on that connection. GORM's driver for MySQL asks for the version when
// a pool is opened. The ping that pgx otherwise adds when a connection was
// last taken from the pool more than a second ago is left out, so that counts
// do not depend on the time.
func (d Database) Via(t testing.TB) (Database, *RoundTrips) {
	t.Helper()
	if d.wire.locate == nil {
		t.Fatalf("testenv: %s has no server to count round trips to", d.Name)
	}
	network, address, err := d.wire.locate(d.DSN)
	if err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	trips := CountRoundTrips(t, network, address)
	if d.DSN, err = d.wire.reroute(d.DSN, trips.Addr()); err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	if d.wire.quiet != nil {
		d.dialector = d.wire.quiet
	}
	return d, trips
}

// wire is the way from a DSN to its server.
type wire struct {
	locate  func(dsn string) (network, address string, err error)
	reroute func(dsn, address string) (string, error)
	// quiet replaces the dialector by one that talks to the server only when
	// told to; nil where it always does.
	quiet func(dsn string) gorm.Dialector
}

var postgresWire = wire{
	locate: func(dsn string) (network, address string, err error) {
		config, err := pgconn.ParseConfig(dsn)
		if err != nil {
			return "", "", err
		}
		network, address = pgconn.NetworkAddress(config.Host, config.Port)
		return network, address, nil
	},
	reroute: func(dsn, address string) (string, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", err
		}
		if !isURL(dsn) {
			return dsn + " host=" + host + " port=" + port, nil // the last one counts
		}
		u, err := url.Parse(dsn)
		if err != nil {
			return "", fmt.Errorf("parsing connection URL: %w", err)
		}
		u.Host = address
		query := u.Query()
		query.Del("host")
		query.Del("port")
		u.RawQuery = query.Encode()
		return u.String(), nil
	},
	quiet: func(dsn string) gorm.Dialector {
		never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
		return postgres.New(postgres.Config{
			DSN:          dsn,
			OptionOpenDB: []stdlib.OptionOpenDB{stdlib.OptionShouldPing(never)},
		})
	},
}

var mariadbWire = wire{
	locate: func(dsn string) (network, address string, err error) {
		config, err := mysqldriver.ParseDSN(dsn)
		if err != nil {
			return "", "", err
		}
		return config.Net, config.Addr, nil
	},
	reroute: func(dsn, address string) (string, error) {
		config, err := mysqldriver.ParseDSN(dsn)
		if err != nil {
			return "", err
		}
		config.Net, config.Addr = "tcp", address
		return config.FormatDSN(), nil
	},
}
