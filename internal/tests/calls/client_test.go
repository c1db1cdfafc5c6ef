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

	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// named has its field names in JSON tags, as of a service whose client has UseJSONStructTags.
type named struct {
	ID    int       `json:"_id"`
	Title string    `json:"shown"`
	At    time.Time `json:"timestamp"`
}

// A helper without BSON options stores what its client would store, field by field.
func TestOptionsOfTheClient(t *testing.T) {
	v := named{ID: 2, Title: "x", At: moment}
	for name, call := range map[string]func(ctx context.Context, c, d *mongo.Collection) error{
		"approx": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.Must(approx.New[named](c, &approx.Options{Every: 1})).Add(ctx, v, 1)
		},
		"attribute": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.Must(attribute.New[int, named](c, nil)).Set(ctx, 1, attribute.Named("k"), v)
		},
		"bucket": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(bucket.New[int, named](c, hourly, nil)).Append(ctx, 1, v))
		},
		"outlier": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(outlier.New[int, named](c, d, nil)).Add(ctx, 1, v))
		},
		"prealloc": func(ctx context.Context, c, _ *mongo.Collection) error {
			g := testkit.Must(prealloc.New[int, named](c, nil))
			if err := g.Insert(ctx, 2, nil, prealloc.At("A", "1")); err != nil {
				return err
			}
			return g.Claim(ctx, 2, v, prealloc.At("A", "1"))
		},
		"relation": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(relation.New[int, int, named](d, c, &relation.Options{OwnerField: "owner"})).Insert(ctx, 1, v))
		},
		"relation.Fetch": func(ctx context.Context, c, _ *mongo.Collection) error {
			if _, err := c.InsertOne(ctx, struct {
				ID named `json:"_id"`
			}{v}); err != nil {
				return err
			}
			joined, err := relation.Fetch[named, bson.D](ctx, c, []named{v}, nil)
			if err == nil && len(joined.Items) == 0 {
				err = errors.New("not found")
			}
			return err
		},
		"schemaversion": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(schemaversion.New[named](c, nil, nil)).Insert(ctx, v))
		},
		"series": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.Must(series.New[named, bson.D](c, hourly, nil)).Append(ctx, v, testkit.D("timestamp", moment))
		},
		"slots": func(ctx context.Context, c, _ *mongo.Collection) error {
			return testkit.Must(slots.New[int, named](c, timeseries.Days(nil), nil)).Set(ctx, 1, moment, v)
		},
		"split": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.Must(split.New[int, named, bson.D](c, d, &split.Options{ColdFields: []string{"cold"}})).Insert(ctx, 2, v, bson.D{})
		},
		"subset": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(subset.New[int, named](d, c, nil)).Insert(ctx, 1, v))
		},
		"tree": func(ctx context.Context, c, _ *mongo.Collection) error {
			tr := testkit.Must(tree.New[int, named](c, tree.ParentReferences, nil))
			return testkit.ErrorOf(tr.Insert(ctx, v, tr.AsRoot()))
		},
		"versioning": func(ctx context.Context, c, d *mongo.Collection) error {
			return testkit.ErrorOf(testkit.Must(versioning.New[int, named](c, d, nil)).Insert(ctx, v, versioning.Change{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := mongotest.Database(t, options.Client().SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true}))
			c, d := db.Collection("c"), db.Collection("d")
			for _, coll := range []*mongo.Collection{c, d} {
				testkit.Insert(t, coll, testkit.D("_id", 1))
			}
			testkit.OK(t, call(t.Context(), c, d))
			stored := ""
			for _, doc := range testkit.Stored[bson.Raw](t, c) {
				stored += doc.String()
			}
			if !strings.Contains(stored, `"shown": "x"`) || strings.Contains(stored, "title") {
				t.Errorf("stored %s", stored)
			}
		})
	}
}
