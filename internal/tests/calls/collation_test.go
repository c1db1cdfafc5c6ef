package calls_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// collated lists the calls that look for a default collation, and the collections that their helper writes.
var collated = map[string]struct {
	writes []string
	calls  func(db *mongo.Database) (map[string]func(context.Context) error, error)
}{
	"attribute": {[]string{"docs"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		a, err := attribute.New[int, any](db.Collection("docs"), nil)
		columns := []attribute.Column{{Path: "name", Key: "name"}}
		return map[string]func(context.Context) error{
			"ensure": a.EnsureIndexes, "check": checks(a), "repair": works(a.Repair),
			"adopt": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return a.Adopt(ctx, columns, w)
			}),
			"unadopt": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return a.Unadopt(ctx, columns, w)
			}),
		}, err
	}},
	"archive": {[]string{"docs", "archive"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		a, err := archive.New(db.Collection("docs"), db.Collection("archive"), nil)
		return map[string]func(context.Context) error{
			"ensure": a.EnsureIndexes, "check": checks(a), "repair": works(a.Repair),
			"move": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return a.Move(ctx, bson.D{}, w)
			}),
			"restore": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return a.Restore(ctx, bson.D{}, w)
			}),
		}, err
	}},
	"bucket": {[]string{"docs"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		b, err := bucket.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return map[string]func(context.Context) error{"ensure": b.EnsureIndexes, "check": checks(b), "repair": works(b.Repair)}, err
	}},
	"bucket, archive": {[]string{"docs", "archive"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		b, err := bucket.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return archives(db, b.Archive), err
	}},
	"bucket, adopt": {[]string{"docs", "docs.adopt"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		b, err := bucket.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return map[string]func(context.Context) error{
			"adopt": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return b.Adopt(ctx, db.Collection("src"), nil, w)
			}),
		}, err
	}},
	"series": {[]string{"docs"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		s, err := series.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return map[string]func(context.Context) error{"ensure": s.EnsureIndexes, "check": checks(s), "repair": works(s.Repair), "compact": works(s.Compact)}, err
	}},
	"series, archive": {[]string{"docs", "archive"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		s, err := series.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return archives(db, s.Archive), err
	}},
	"series, adopt": {[]string{"docs", "docs.adopt"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		s, err := series.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return map[string]func(context.Context) error{
			"adopt": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return s.Adopt(ctx, db.Collection("src"), nil, w)
			}),
		}, err
	}},
	"slots": {[]string{"docs"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		s, err := slots.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return map[string]func(context.Context) error{
			"ensure": s.EnsureIndexes, "check": checks(s), "repair": works(s.Repair),
			"adopt": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return s.Adopt(ctx, nil, w)
			}),
		}, err
	}},
	"slots, archive": {[]string{"docs", "archive"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		s, err := slots.New[string, bson.D](db.Collection("docs"), timeseries.Days(nil), nil)
		return archives(db, s.Archive), err
	}},
	"outlier": {[]string{"docs", "extras"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		l, err := outlier.New[int, any](db.Collection("docs"), db.Collection("extras"), &outlier.Options{MaxCount: 1})
		return map[string]func(context.Context) error{"ensure": l.EnsureIndexes, "check": checks(l), "repair": works(l.Repair), "adopt": works(l.Adopt)}, err
	}},
	"split": {[]string{"docs", "cold"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		s, err := split.New[int, bson.D, bson.D](db.Collection("docs"), db.Collection("cold"), &split.Options{ColdFields: []string{"name"}})
		return map[string]func(context.Context) error{"ensure": s.EnsureIndexes, "check": checks(s), "repair": works(s.Repair), "adopt": works(s.Adopt)}, err
	}},
	"subset": {[]string{"docs", "items"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		s, err := subset.New[int, bson.D](db.Collection("docs"), db.Collection("items"), nil)
		return map[string]func(context.Context) error{"ensure": s.EnsureIndexes, "check": checks(s), "repair": works(s.Repair), "adopt": works(s.Adopt)}, err
	}},
	"extref": {[]string{"docs", "orders", "outbox"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		r, err := extref.New[int, bson.D](db.Collection("docs"), []extref.Target{
			{Collection: db.Collection("orders"), Path: "doc", Fields: []extref.Field{{Path: "name"}}}}, &extref.Options{Outbox: db.Collection("outbox")})
		return map[string]func(context.Context) error{
			"ensure": r.EnsureIndexes, "check": checks(r), "repair": works(r.Repair),
			"adopt": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return r.Adopt(ctx, "orders.doc", w)
			}),
		}, err
	}},
	"schemaversion": {[]string{"docs", "docs.migrations"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		up := func(doc bson.D) (bson.D, error) { return doc, nil }
		v, err := schemaversion.New[bson.D](db.Collection("docs"), []schemaversion.Step{{Up: up}}, nil)
		return map[string]func(context.Context) error{"ensure": v.EnsureIndexes,
			"migrate": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return v.Migrate(ctx, 2, w)
			})}, err
	}},
	"versioning": {[]string{"docs", "revisions"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		d, err := versioning.New[int, bson.D](db.Collection("docs"), db.Collection("revisions"), nil)
		return map[string]func(context.Context) error{
			"ensure": d.EnsureIndexes, "check": checks(d), "repair": works(d.Repair),
			"adopt": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return d.Adopt(ctx, nil, w)
			}),
			"adopt history": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				read := func(bson.Raw) (*versioning.Revision[bson.Raw], error) { return nil, nil }
				return d.AdoptRevisions(ctx, read, w)
			}),
			"prune": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
				return d.Prune(ctx, versioning.Retention{Keep: 1}, w)
			}),
		}, err
	}},
	"versioning without a history": {[]string{"docs"}, func(db *mongo.Database) (map[string]func(context.Context) error, error) {
		d, err := versioning.New[int, bson.D](db.Collection("docs"), nil, &versioning.Options{NoHistory: true})
		return map[string]func(context.Context) error{"ensure": d.EnsureIndexes, "check": checks(d), "repair": works(d.Repair)}, err
	}},
}

// archives is a call of an Archive to the collection "archive".
func archives(db *mongo.Database, call func(context.Context, time.Time, *mongo.Collection, *mongopatterns.Work) (mongopatterns.Result, error)) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"archive": works(func(ctx context.Context, w *mongopatterns.Work) (mongopatterns.Result, error) {
			return call(ctx, time.Now(), db.Collection("archive"), w)
		}),
	}
}

func checks(c mongopatterns.Checker) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, err := range c.Check(ctx, nil) {
			return err
		}
		return nil
	}
}

func works(call func(context.Context, *mongopatterns.Work) (mongopatterns.Result, error)) func(context.Context) error {
	return func(ctx context.Context) error { _, err := call(ctx, nil); return err }
}

// A helper refuses a default collation on any of its collections, also in a transaction, and writes
// nothing.
func TestDefaultCollations(t *testing.T) {
	for pattern, p := range collated {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.writes {
				db := mongotest.Database(t)
				err := db.CreateCollection(t.Context(), name, options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2}))
				if err != nil {
					t.Fatal(err)
				}
				doc := bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "ann"}, {Key: "items", Value: bson.A{"a", "b", "c"}}}
				if _, err := db.Collection("docs").InsertOne(t.Context(), doc); err != nil {
					t.Fatal(err)
				}
				calls, err := p.calls(db)
				if err != nil {
					t.Fatal(err)
				}
				for call, do := range calls {
					refused := func(ctx context.Context) error {
						if err := do(ctx); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), `"`+name+`" has the default collation "en"`) {
							t.Errorf("%s, %s: %v", call, name, err)
						}
						return nil
					}
					_ = refused(t.Context())
					if call != "ensure" { // no transaction creates indexes
						if err := mongopatterns.Transact(t.Context(), db.Client(), refused); err != nil {
							t.Error(err)
						}
					}
				}
				var docs []bson.D
				cursor, err := db.Collection("docs").Find(t.Context(), bson.D{})
				if err == nil {
					err = cursor.All(t.Context(), &docs)
				}
				if err != nil || len(docs) != 1 || len(docs[0]) != len(doc) {
					t.Errorf("%s: %v, %v", name, docs, err)
				}
			}
		})
	}
}
