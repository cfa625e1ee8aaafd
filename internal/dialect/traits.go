package dialect

// Traits are what the capture of writes has to know of a database.
type Traits struct {
	// ReturnInsert and so on say that the server can return the rows that such a statement writes, where
	// the driver writes the clause: MariaDB can for INSERT and DELETE, while its driver claims UPDATE too.
	ReturnInsert, ReturnUpdate, ReturnDelete, ReturnSoftDelete bool
	// ReturnUpsert says that an upsert returns just the rows that it inserted or updated.
	ReturnUpsert bool
	// UpdatedRow is a condition for rows that an upsert of this transaction found, empty where no other could have come in between.
	UpdatedRow string
	// DuplicateKey says that an upsert has no target: any unique index may be the conflict.
	DuplicateKey bool
	// Output says that the driver has columns made by the database returned by a clause of its own.
	Output bool
	// LastInsertID says that GORM numbers rows from the first number that the database made.
	LastInsertID bool
	// NoLastInsertID says that the driver fails when it is asked for a key that was made.
	NoLastInsertID bool
	// CountsChanged says that rows which already had the values may not be counted.
	CountsChanged bool
	// Bounded says that UPDATE and DELETE have ORDER BY and LIMIT.
	Bounded bool
	// FoldsNames says that table names are compared without regard to case.
	FoldsNames bool
	// NoTuples says that there is no (a, b) IN ((1, 2)).
	NoTuples bool
	// LocksRanges says that locked rows are all that can match until the transaction ends.
	LocksRanges bool
	// LockHint stands behind the name of a table whose rows are to be locked, where ForUpdate has no place.
	LockHint string
}

// Traits implements Dialect.
func (Postgres) Traits() Traits {
	return Traits{ReturnInsert: true, ReturnUpdate: true, ReturnDelete: true, ReturnSoftDelete: true, ReturnUpsert: true, NoLastInsertID: true, UpdatedRow: "xmax::text <> '0'"}
}

// Traits implements Dialect.
func (SQLite) Traits() Traits {
	return Traits{
		ReturnInsert: true, ReturnUpdate: true, ReturnDelete: true, ReturnSoftDelete: true, ReturnUpsert: true,
		FoldsNames: true,
	}
}

// Traits implements Dialect.
func (MySQL) Traits() Traits {
	return Traits{
		ReturnInsert: true, ReturnDelete: true, DuplicateKey: true, LastInsertID: true, CountsChanged: true,
		Bounded: true, FoldsNames: true,
	}
}

// Traits implements Dialect.
func (SQLServer) Traits() Traits {
	return Traits{Output: true, FoldsNames: true, NoTuples: true, LocksRanges: true, LockHint: " WITH (UPDLOCK, ROWLOCK, HOLDLOCK)"}
}
