package capturetest

import (
	"fmt"
	"slices"

	"gorm.io/gorm"
)

// Variant is what a database and its driver are, as far as expectations differ by it.
type Variant string

const (
	// Postgres is PostgreSQL.
	Postgres Variant = "postgres"
	// SQLite is SQLite.
	SQLite Variant = "sqlite"
	// MariaDB is GORM's MySQL driver with RETURNING.
	MariaDB Variant = "mariadb"
	// MySQL is GORM's MySQL driver without RETURNING.
	MySQL Variant = "mysql"
	// FoundRows is a further one of MySQL and MariaDB with clientFoundRows, which counts rows that did not change.
	FoundRows Variant = "found rows"
	// FoldsCase is a further one of databases that compare texts without regard to letter case.
	FoldsCase Variant = "folds case"
	// Increment is a further one of MySQL and MariaDB with auto_increment_increment above 1.
	Increment Variant = "increment"
)

// features are what the suite finds out about a database.
type features struct {
	variants []Variant
	// first and step are those of the keys that the database makes.
	first, step int
}

// firstKey is where generated keys begin, so that keys of prepared rows lie below.
const firstKey = 101

func (f features) key(n int) string { return fmt.Sprint(f.first + (n-1)*f.step) }

// detect looks at the driver and the database. The probe needs the table of seats.
func detect(db *gorm.DB, probe bool) (features, error) {
	f := features{first: firstKey, step: 1, variants: []Variant{Variant(db.Name())}}
	if db.Name() == "mysql" {
		if slices.Contains(db.Callback().Create().Clauses, "RETURNING") {
			f.variants = []Variant{MariaDB}
		}
		offset := 1
		if err := db.Raw("SELECT @@auto_increment_increment, @@auto_increment_offset").Row().Scan(&f.step, &offset); err != nil {
			return f, fmt.Errorf("reading auto_increment_increment: %w", err)
		}
		if f.step > 1 {
			f.variants = append(f.variants, Increment)
			for f.first = offset; f.first < firstKey; {
				f.first += f.step
			}
		}
	}
	if !probe {
		return f, nil
	}
	value := seat{Tenant: 1, No: "probe", Name: "n"}
	if err := db.Create(&value).Error; err != nil {
		return f, fmt.Errorf("writing a probe: %w", err)
	}
	same := db.Model(&value).Update("name", "n")
	if err := same.Error; err != nil {
		return f, fmt.Errorf("writing a probe: %w", err)
	}
	if db.Name() == "mysql" && same.RowsAffected == 1 {
		f.variants = append(f.variants, FoundRows)
	}
	var folded int64
	if err := db.Model(&seat{}).Where("no = ?", "PROBE").Count(&folded).Error; err != nil {
		return f, fmt.Errorf("reading a probe: %w", err)
	}
	if folded == 1 {
		f.variants = append(f.variants, FoldsCase)
	}
	return f, db.Delete(&value).Error
}
