package main

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/archive"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// adopted is a scene of which the documents before are inserted, and run makes the others of
// them. shown are the collections before and after.
func adopted(title, say string, docs map[string][]any, before, after []string, run func(ctx context.Context, db *mongo.Database) error) scene {
	return func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		for name, all := range docs {
			if err := insert(ctx, db.Collection(name), all...); err != nil {
				return picture{}, err
			}
		}
		p := picture{title: title, say: say}
		for _, name := range before {
			p.before = append(p.before, shot(name, 3))
		}
		err := run(ctx, db)
		for _, name := range after {
			p.after = append(p.after, shot(name, 3))
		}
		return p, err
	}
}

// d is a document of alternating names and values.
func d(namesAndValues ...any) bson.D {
	var out bson.D
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		out = append(out, bson.E{Key: namesAndValues[i].(string), Value: namesAndValues[i+1]})
	}
	return out
}

func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func init() {
	scenes["tree"] = adopted("tree: the way from the root in every node, kept right through moves", "Adopt: one index answers descendants and ancestors",
		map[string][]any{"categories": {d("_id", "Books", "parent", nil), d("_id", "Databases", "parent", "Books"), d("_id", "MongoDB", "parent", "Databases")}},
		[]string{"categories"}, []string{"categories"}, func(ctx context.Context, db *mongo.Database) error {
			t, err := tree.New[string, bson.M](db.Collection("categories"), tree.AncestorArray, nil)
			if err != nil {
				return err
			}
			if err = t.EnsureIndexes(ctx); err != nil {
				return err
			}
			_, err = t.Adopt(ctx, nil)
			return err
		})
	scenes["paging"] = func(ctx context.Context, db *mongo.Database, shot func(string, int) panel) (picture, error) {
		articles := db.Collection("articles")
		for i, at := range []time.Time{day(2024, 5, 3), day(2024, 5, 2), day(2024, 5, 1)} {
			if err := insert(ctx, articles, d("_id", i+1, "published", at)); err != nil {
				return picture{}, err
			}
		}
		pager, err := paging.New[bson.Raw](articles, bson.D{{Key: "published", Value: -1}}, nil)
		if err != nil {
			return picture{}, err
		}
		first, err := pager.Page(ctx, nil, paging.Request{Size: 2})
		if err != nil {
			return picture{}, err
		}
		next, err := pager.Page(ctx, nil, paging.Request{Size: 2, After: first.Next})
		return picture{title: "paging: the next page begins at a place, not after a number of documents", say: "page.Next holds the last place: one index seek at any depth",
			before: []panel{{"articles, page 1", first.Items}}, after: []panel{{"articles, page 2", next.Items}}}, err
	}
	minute := func(m int) time.Time { return time.Date(2019, 1, 31, 10, m, 0, 0, time.UTC) }
	scenes["bucket"] = adopted("bucket: one document for an hour of measurements, with their sums", "Adopt, or Append: one upsert each",
		map[string][]any{"measurements": {
			d("_id", 1, "sensor_id", 12345, "timestamp", minute(0), "temperature", 40), d("_id", 2, "sensor_id", 12345, "timestamp", minute(1), "temperature", 41)}},
		[]string{"measurements"}, []string{"hours"}, func(ctx context.Context, db *mongo.Database) error {
			type reading struct {
				Timestamp   time.Time `bson:"timestamp"`
				Temperature int       `bson:"temperature"`
			}
			b, err := bucket.New[int, reading](db.Collection("hours"), timeseries.Every(time.Hour), &bucket.Options{
				SeriesField: "sensor_id", StartField: "start_date", EndField: "end_date", CountField: "transaction_count",
				Values: []timeseries.Value{{Field: "temperature", Sum: "sum_temperature"}},
			})
			if err != nil {
				return err
			}
			if err = b.EnsureIndexes(ctx); err != nil {
				return err
			}
			_, err = b.Adopt(ctx, db.Collection("measurements"), nil, nil)
			return err
		})
	scenes["series"] = adopted("series: the measurements of a window, packed into one binary", "60 × Append, and Compact",
		map[string][]any{"measurements": {
			d("_id", 1, "sensor_id", 12345, "timestamp", minute(0), "temperature", 40), d("_id", 2, "sensor_id", 12345, "timestamp", minute(1), "temperature", 41)}},
		[]string{"measurements"}, []string{"hours"}, func(ctx context.Context, db *mongo.Database) error {
			type reading struct {
				Timestamp   time.Time `bson:"timestamp"`
				Temperature int       `bson:"temperature"`
			}
			s, err := series.New[int, reading](db.Collection("hours"), timeseries.Every(time.Hour), &series.Options{
				SeriesField: "sensor_id", StartField: "start_date", Values: []timeseries.Value{{Field: "temperature"}},
			})
			hour := make([]reading, 60)
			for m := range hour {
				hour[m] = reading{minute(m), 40 + m%2}
			}
			if err == nil {
				err = s.EnsureIndexes(ctx)
			}
			if err == nil {
				_, err = s.AppendMany(ctx, timeseries.Of(12345, hour...), nil)
			}
			if err == nil {
				_, err = s.Compact(ctx, nil)
			}
			if err == nil { // the mark is random, and the picture the same each time
				_, err = db.Collection("hours").UpdateMany(ctx, bson.D{}, d("$set", d("mark", int64(5577006791947779410))))
			}
			return err
		})
	scenes["attribute"] = adopted("attribute: one index for many similar fields", "Adopt: columns become entries",
		map[string][]any{"films": {d("_id", 1, "title", "Star Wars", "release_US", day(1977, 5, 20), "release_France", day(1977, 10, 19))}},
		[]string{"films"}, []string{"films"}, func(ctx context.Context, db *mongo.Database) error {
			a, err := attribute.New[int, time.Time](db.Collection("films"), &attribute.Options{ArrayField: "releases", KeyField: "location", ValueField: "date"})
			if err != nil {
				return err
			}
			_, err = a.Adopt(ctx, []attribute.Column{{Path: "release_US", Key: "USA"}, {Path: "release_France", Key: "France"}}, nil)
			return err
		})
	scenes["outlier"] = adopted("outlier: a list that outgrows its document goes on in others", "Add: elements move out once the cap is reached (here 2)",
		map[string][]any{"books": {d("_id", 1, "title", "Harbour Lights", "customers_purchased", bson.A{"user00", "user01"})}},
		[]string{"books"}, []string{"books", "book_extras"}, func(ctx context.Context, db *mongo.Database) error {
			l, err := outlier.New[int, string](db.Collection("books"), db.Collection("book_extras"), &outlier.Options{
				ArrayField: "customers_purchased", FlagField: "has_extras", ParentField: "book_id", MaxCount: 2})
			if err != nil {
				return err
			}
			if err = l.EnsureIndexes(ctx); err != nil {
				return err
			}
			_, err = l.Add(ctx, 1, "user02")
			return err
		})
	scenes["subset"] = adopted("subset: the best few inside their parent, all in a collection of their own", "Adopt (here the best 2 are kept)",
		map[string][]any{"products": {d("_id", 1, "name", "Baseball bat", "reviews", bson.A{
			d("_id", 1, "rating", 5), d("_id", 2, "rating", 4), d("_id", 3, "rating", 2)})}},
		[]string{"products"}, []string{"products", "reviews"}, func(ctx context.Context, db *mongo.Database) error {
			s, err := subset.New[int, bson.M](db.Collection("products"), db.Collection("reviews"), &subset.Options{
				ParentField: "product_id", ArrayField: "reviews", CountField: "num_reviews", N: 2, Sort: bson.D{{Key: "rating", Value: -1}}})
			if err != nil {
				return err
			}
			if err = s.EnsureIndexes(ctx); err != nil {
				return err
			}
			_, err = s.Adopt(ctx, nil)
			return err
		})
	scenes["split"] = adopted("split: what lists read, and what only one page reads", "Adopt: cold fields move out",
		map[string][]any{"movies": {d("_id", 1, "title", "The Arrival of a Train", "year", 1896, "plot", "A train arrives.", "imdb", d("rating", 7.3, "votes", 5043))}},
		[]string{"movies"}, []string{"movies", "movie_details"}, func(ctx context.Context, db *mongo.Database) error {
			s, err := split.New[int, bson.M, bson.M](db.Collection("movies"), db.Collection("movie_details"), &split.Options{IDField: "movie_id", ColdFields: []string{"plot", "imdb"}})
			if err != nil {
				return err
			}
			if err = s.EnsureIndexes(ctx); err != nil {
				return err
			}
			_, err = s.Adopt(ctx, nil)
			return err
		})
	scenes["extref"] = adopted("extref: copied fields follow their source", `Update(ctx, 1, {$set: {name: "Ann Summers"}}): one transaction`,
		map[string][]any{
			"customers": {d("_id", 1, "name", "Ann", "phone", "555-0100", "version", int64(1))},
			"orders":    {d("_id", 10, "total", 30, "customer", d("_id", 1, "name", "Ann", "version", int64(1)))}},
		[]string{"customers", "orders"}, []string{"customers", "orders"}, func(ctx context.Context, db *mongo.Database) error {
			r, err := extref.New[int, bson.M](db.Collection("customers"), []extref.Target{
				{Collection: db.Collection("orders"), Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, nil)
			if err != nil {
				return err
			}
			_, err = r.Update(ctx, 1, bson.M{"$set": bson.M{"name": "Ann Summers"}})
			return err
		})
	scenes["versioning"] = adopted("versioning: the newest in one collection, what was before in another", "Update keeps the state before, and says who and when",
		map[string][]any{"current_policies": {d("_id", "bilbo", "policy", "Shire standard", "items", bson.A{"Elven Sword"})}},
		[]string{"current_policies"}, []string{"current_policies", "policy_revisions"}, func(ctx context.Context, db *mongo.Database) error {
			v, err := versioning.New[string, bson.M](db.Collection("current_policies"), db.Collection("policy_revisions"), &versioning.Options{DocumentIDField: "policy_id"})
			if err != nil {
				return err
			}
			if err = v.EnsureIndexes(ctx); err != nil {
				return err
			}
			_, err = v.Edit(ctx, "bilbo", func(p *bson.M) error {
				(*p)["items"] = bson.A{"Elven Sword", "One Ring"}
				return nil
			}, versioning.Change{Author: "gandalf", At: day(1941, 6, 1)})
			return err
		})
	scenes["archive"] = adopted("archive: old documents move, whole, and each is in exactly one place", "Move(ctx, BeforeFilter(1 January 2023), nil)",
		map[string][]any{"orders": {d("_id", 17, "customer", "Ann", "closed_at", day(2021, 3, 5)), d("_id", 35, "customer", "Bob", "closed_at", day(2024, 6, 1))}},
		[]string{"orders"}, []string{"orders", "orders_archive"}, func(ctx context.Context, db *mongo.Database) error {
			a, err := archive.New(db.Collection("orders"), db.Collection("orders_archive"), &archive.Options{TimeField: "closed_at"})
			if err == nil {
				_, err = a.Move(ctx, a.BeforeFilter(day(2023, 1, 1)), nil)
			}
			if err == nil { // a picture that is the same each time
				_, err = db.Collection("orders_archive").UpdateByID(ctx, 17, d("$set", d("archived_at", day(2026, 11, 23))))
			}
			return err
		})
}
