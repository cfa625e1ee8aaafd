package dedup

import (
	"context"
	"time"

	"gorm.io/gorm/logger"
)

// witness is the logger of a handler's transaction on MySQL and MariaDB. GORM tells it of each statement when it has read the rows, so it
// sees the errors that come with them, which the guard does not.
//
// Nothing generates this file. GORM's loggers name the first caller that is in no file of GORM's and in none with such a name, and that is to be the handler.
type witness struct {
	logger.Interface

	guarded *guarded
	// asking says that the text of a statement is not needed.
	asking bool
}

// LogMode implements logger.Interface.
func (w *witness) LogMode(level logger.LogLevel) logger.Interface {
	return &witness{Interface: w.Interface.LogMode(level), guarded: w.guarded}
}

// Trace implements logger.Interface.
func (w *witness) Trace(ctx context.Context, begin time.Time, fc func() (sql string, rowsAffected int64), err error) {
	w.guarded.after(ctx, err)
	if w.guarded.pending {
		w.asking = true
		_, n := fc()
		w.asking = false
		// Of Row and Rows, whose rows are the handler's to read, GORM does not know how many there are.
		w.guarded.pending, w.guarded.doubtful = false, w.guarded.doubtful || n < 0
	}
	w.Interface.Trace(ctx, begin, fc, err)
}

// ParamsFilter implements gorm.ParamsFilter.
func (w *witness) ParamsFilter(ctx context.Context, sql string, params ...any) (string, []any) {
	if w.asking {
		return "", nil
	}
	if filter, ok := w.Interface.(interface {
		ParamsFilter(ctx context.Context, sql string, params ...any) (string, []any)
	}); ok {
		return filter.ParamsFilter(ctx, sql, params...)
	}
	return sql, params
}
